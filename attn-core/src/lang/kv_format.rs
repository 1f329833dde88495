//! KV formats: how keys and values are stored, as Rust code.
//!
//! A user implements [`KvFormat`]; `#[kv_format]` turns it into CUDA. [`packed`] has the bytes of a stored row and the
//! row that is encoded, [`desc`] the descriptor and the object-safe form that the CPU runs. [`LinearCodes`] are codes
//! that kernels need not decode; [`KvFormats`] are the formats of keys and of values. [`extents`] proves that functions
//! stay within a row.

pub mod desc;
pub mod extents;
mod formats;
mod linear;
mod linear_check;
pub mod packed;
#[cfg(test)]
pub(crate) mod samples;

pub use desc::{DescribedKvFormat, ErasedKvFormat, KvFormatDesc};
pub use formats::{KvFormatId, KvFormats, RowBytes};
pub use linear::{CodeValues, LinearCodes};
pub use packed::{EncodeRow, Packed, PackedMut};

use super::VariantParams;

/// How a row of keys or of values is stored: `head_dim` elements of one token and one KV head.
///
/// A stored row is *codes* and, if [`Self::side_bytes`] is not 0, *side* data such as scales. Each is a tensor of bytes
/// with its own strides, so that scales lie in the row's record, in a tensor of their own, or at the end of a page.
///
/// Both functions give the same bits on the CPU and on a GPU: products are not fused with sums, divisions and square
/// roots are rounded correctly, reductions have a fixed order. Functions that differ between devices (`exp`, `log`,
/// `sin`, `powf`, `approx`) are refused.
///
/// Binding proves that no function touches bytes or elements outside of a row ([`extents`]), or refuses the format.
pub trait KvFormat: VariantParams + Clone + Send + Sync + 'static {
    /// Bytes of a row's codes. `dim` is the head dimension of keys or of values. Host only.
    fn code_bytes(&self, dim: i32) -> i32;
    /// Bytes of a row's side data; 0 if it has none. Host only.
    fn side_bytes(&self, dim: i32) -> i32 {
        let _ = dim;
        0
    }
    /// Stores the row `x`. It is called once for a row; a warp shares the work on a GPU.
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, kv_head: i32);
    /// The elements `d .. d + 8` of a stored row; `d` is a multiple of 8. Any thread calls it, in any order, for any
    /// subset of a row.
    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, kv_head: i32, d: i32) -> [f32; 8];

    /// The codes, where they stand for numbers that [`Self::scale`] and [`Self::zero`] turn into elements: decode
    /// kernels then multiply these on tensor cores, at a fraction of the instructions. Results differ from those of
    /// decoded rows by rounding. Host only, from scalar parameters alone; binding checks it against [`Self::decode`].
    fn linear(&self) -> Option<LinearCodes> {
        None
    }
    /// The scale of a group of [`LinearCodes`].
    fn scale(&self, side: Packed<'_>, kv_head: i32, group: i32) -> f32 {
        let _ = (side, kv_head, group);
        1.0
    }
    /// The zero of a group of [`LinearCodes::unsigned`].
    fn zero(&self, side: Packed<'_>, kv_head: i32, group: i32) -> f32 {
        let _ = (side, kv_head, group);
        0.0
    }
    /// The number that a code of [`LinearCodes::levels`] stands for, from 0 to 15: a finite number of f16.
    fn level(&self, code: i32) -> f32 {
        let _ = code;
        0.0
    }
}
