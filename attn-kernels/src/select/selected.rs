//! The result of a kernel selection.

use std::fmt;

use attn_core::spec::KernelKind;

use crate::kernel_traits::{DecodeTiles, KernelTraits};

/// The kernel that runs a batch: its family, and the rows of its decode Q tile. A decode tile that holds all rows of a
/// request reads the keys of the request once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SelectedKernel {
    /// The kernel family.
    pub kind: KernelKind,
    /// PackGQA rows of the Q tile of decode, or of the decode part of a mixed kernel; 0 for prefill.
    pub rows: u32,
}

impl SelectedKernel {
    /// The prefill kernel.
    pub const PREFILL: Self = SelectedKernel { kind: KernelKind::Prefill, rows: 0 };

    /// The decode kernel whose tile suits requests of `rows` PackGQA rows.
    #[must_use]
    pub fn decode(rows: u64, tiles: DecodeTiles) -> Self {
        let rows = tiles.rows_for(u32::try_from(rows).unwrap_or(u32::MAX));
        SelectedKernel { kind: KernelKind::Decode, rows }
    }

    /// The mixed kernel whose decode tile suits requests of `rows` PackGQA rows.
    #[must_use]
    pub fn mixed(rows: u64, tiles: DecodeTiles) -> Self {
        SelectedKernel { kind: KernelKind::Mixed, ..Self::decode(rows, tiles) }
    }

    /// The kernel that has these traits.
    #[must_use]
    pub fn of(traits: &KernelTraits) -> Self {
        let prefill = traits.kind == KernelKind::Prefill;
        SelectedKernel { kind: traits.kind, rows: if prefill { 0 } else { traits.decode_part().tile_rows } }
    }
}

impl fmt::Display for SelectedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            KernelKind::Prefill => self.kind.fmt(f),
            KernelKind::Decode | KernelKind::Mixed => write!(f, "{} of {} rows", self.kind, self.rows),
        }
    }
}
