//! What all kernels have in common: the rows that they read and write, and the architecture.

use attn_core::dtype::Dtypes;
use attn_core::lang::kv_format::{CodeValues, LinearCodes};

use crate::compile::Arch;

/// Upper bound of the templates' static shared memory, in bytes: flags, and positions of keys under a KV list.
pub(super) const STATIC_BYTES: u32 = 128;

/// The compile-time constants that every kernel has, whatever its template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommonTraits {
    /// Elements of a query or key of a head.
    pub head_dim: u32,
    /// Elements of a value, and of an output.
    pub value_dim: u32,
    /// Element types.
    pub dtypes: Dtypes,
    /// The rows of keys and of values, if they are stored in KV formats.
    pub packed: Option<[PackedRow; 2]>,
    /// Whether keys and values are in pages.
    pub paged: bool,
    /// Whether values are the first elements of the keys, in the same memory, and no hook rewrites either (MLA).
    pub values_share_keys: bool,
    /// Whether the bits of a row depend on the row alone, whatever rows are beside it.
    pub row_invariant: bool,
    /// The architecture to compile for.
    pub arch: Arch,
}

impl CommonTraits {
    /// The stored rows of keys and of values; without KV formats a code is an element.
    pub(super) fn rows(&self) -> [PackedRow; 2] {
        let dense = |dim| PackedRow { codes: dim * self.dtypes.kv.size() as u32, side: 0, linear: None };
        self.packed.unwrap_or([self.head_dim, self.value_dim].map(dense))
    }

    /// Bytes of a stored key of one head, side data included.
    pub fn key_bytes(&self) -> u32 {
        let [keys, _] = self.rows();
        keys.codes + keys.side
    }

    /// Bytes of a stored value of one head, side data included; 0 if it shares the memory of its key.
    pub fn value_bytes(&self) -> u32 {
        let [_, values] = self.rows();
        if self.values_share_keys { 0 } else { values.codes + values.side }
    }

    /// Whether `ctas` CTAs with this much dynamic shared memory fit an SM, and one fits every GPU of the architecture.
    pub(super) fn holds(&self, ctas: u32, bytes: u32) -> bool {
        let bytes = bytes + STATIC_BYTES;
        bytes <= self.arch.min_smem() && ctas * (bytes + 1024) <= self.arch.max_smem() + 1024
    }
}

/// Bytes of a stored row of keys or of values of a KV format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PackedRow {
    /// Of its codes.
    pub codes: u32,
    /// Of its side data.
    pub side: u32,
    /// Its codes, if tensor cores can multiply them.
    pub linear: Option<LinearCodes>,
}

impl PackedRow {
    /// Whether decode on tensor cores multiplies codes of rows of `dim` elements, of tiles of `tile_rows` query rows.
    /// Codes are loaded in pairs of 16 bytes. A group is whole 16 bytes, and scales and zeros of few groups fit
    /// registers; or it is less, of whole words, without a zero and an offset, and the scale multiplies codes.
    pub(crate) fn multiplies_codes(self, dim: u32, tile_rows: u32) -> bool {
        let Some(linear @ LinearCodes { bits, values, group }) = self.linear else { return false };
        let group = if group == 0 { dim } else { group.unsigned_abs() };
        let (chunk, word) = (128 / bits, 32 / bits);
        let factors = dim / group * if linear.has_zero() { 2 } else { 1 };
        let of_sums = group.is_multiple_of(chunk) && factors <= 8;
        let plain = !matches!(values, CodeValues::Unsigned | CodeValues::Signed);
        let of_codes = plain && group < chunk && group.is_multiple_of(word) && chunk.is_multiple_of(group);
        let whole = dim.is_multiple_of(2 * chunk) && dim.is_multiple_of(group) && (of_sums || of_codes);
        whole && self.codes == dim * bits / 8 && dim <= 256 && tile_rows <= 16
    }
}

/// Elements of a row of prefill's tiles, which consist of panels of 64 elements.
pub(super) fn panels(dim: u32) -> u32 {
    dim.next_multiple_of(64)
}

/// Lanes that hold one row when hooks transform it; the same as in `memory/row.cuh`.
pub(crate) fn row_lanes(dim: u32) -> u32 {
    dim.div_ceil(8 << u32::from(dim > 256) << u32::from(dim > 512)).next_power_of_two()
}
