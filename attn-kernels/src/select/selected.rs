//! The result of a kernel selection.

use std::fmt;

use attn_core::spec::{KernelKind, PrefillBackend};

use crate::kernel_traits::{DecodeTiles, KernelTraits};

/// The kernel that runs a batch: its family, and the rows of its decode Q tile. A decode tile that holds all rows of a
/// request reads the keys of the request once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SelectedKernel {
    /// The kernel family.
    pub kind: KernelKind,
    /// PackGQA rows of the Q tile of decode, or of the decode part of a mixed kernel; 0 for prefill.
    pub rows: u32,
    /// Of prefill: whether keys stay in shared memory .
    pub resident: bool,
}

impl SelectedKernel {
    /// The prefill kernel.
    pub const PREFILL: Self = SelectedKernel { kind: KernelKind::Prefill, rows: 0, resident: false };
    /// The prefill kernel for requests whose keys fit one KV tile.
    pub const RESIDENT_PREFILL: Self = SelectedKernel { resident: true, ..Self::PREFILL };

    /// The decode kernel whose tile suits requests of `rows` PackGQA rows.
    #[must_use]
    pub fn decode(rows: u64, tiles: DecodeTiles) -> Self {
        let rows = tiles.rows_for(u32::try_from(rows).unwrap_or(u32::MAX));
        SelectedKernel { kind: KernelKind::Decode, rows, resident: false }
    }

    /// The mixed kernel whose decode tile suits requests of `rows` PackGQA rows.
    #[must_use]
    pub fn mixed(rows: u64, tiles: DecodeTiles) -> Self {
        SelectedKernel { kind: KernelKind::Mixed, ..Self::decode(rows, tiles) }
    }

    /// The prefill backend of its traits, where options name `backend`.
    pub fn prefill_backend(self, backend: PrefillBackend) -> PrefillBackend {
        match backend {
            _ if self.resident => PrefillBackend::Sm90Resident,
            PrefillBackend::Sm90Resident => PrefillBackend::Sm90,
            backend => backend,
        }
    }

    /// The kernel that has these traits.
    #[must_use]
    pub fn of(traits: &KernelTraits) -> Self {
        let kind = traits.kind();
        let rows = if kind == KernelKind::Prefill { 0 } else { traits.decode_part().facts().tile_rows };
        SelectedKernel { kind, rows, resident: traits.facts().special.is_some() }
    }
}

impl fmt::Display for SelectedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            KernelKind::Prefill => write!(f, "{}{}", self.kind, if self.resident { " of resident keys" } else { "" }),
            KernelKind::Decode | KernelKind::Mixed => write!(f, "{} of {} rows", self.kind, self.rows),
        }
    }
}
