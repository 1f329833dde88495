//! Which kernels a batch runs, as far as its queries say.

use std::fmt;

use attn_core::spec::KernelKind;

use crate::cell::Cell;

/// A kernel family, and for decode how many packed rows its tile holds: a request is best read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Family {
    /// The family.
    pub kind: KernelKind,
    /// Packed rows of a tile of decode; 0 for prefill.
    pub rows: u32,
}

impl Family {
    pub(super) const PREFILL: Self = Family { kind: KernelKind::Prefill, rows: 0 };

    /// Decode with the tile for so many rows of a request.
    pub(super) fn decode(rows: u64, head_dim: u32) -> Self {
        Family { kind: KernelKind::Decode, rows: Cell::decode_rows(u32::try_from(rows).unwrap_or(u32::MAX), head_dim) }
    }

    /// That of a kernel.
    pub(super) fn of(cell: &Cell) -> Self {
        let decode = cell.kind == KernelKind::Decode;
        Family { kind: cell.kind, rows: if decode { cell.tile_rows } else { 0 } }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            KernelKind::Prefill => self.kind.fmt(f),
            KernelKind::Decode => write!(f, "{} of {} rows", self.kind, self.rows),
        }
    }
}
