//! The result of a kernel selection.

use std::fmt;

use attn_core::spec::{KernelKind, PrefillBackend};

use crate::kernel_traits::{KernelTraits, KernelTraitsRequest};

/// The kernel that runs a batch: its family, and the rows of its decode Q tile. A decode tile that holds all rows of a
/// request reads the keys of the request once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SelectedKernel {
    /// The kernel family.
    pub kind: KernelKind,
    /// PackGQA rows of the Q tile of decode, or of the decode part of a mixed kernel; 0 for prefill.
    pub rows: u32,
    /// The backend of a prefill kernel that runs some batches in place of the usual one.
    pub special: Option<PrefillBackend>,
}

impl SelectedKernel {
    /// The usual prefill kernel.
    pub const PREFILL: Self = SelectedKernel { kind: KernelKind::Prefill, rows: 0, special: None };

    /// The decode or mixed kernel of a problem whose decode tile suits requests of `rows` PackGQA rows.
    #[must_use]
    pub fn with_rows(kind: KernelKind, rows: u64, of: &KernelTraitsRequest) -> Self {
        SelectedKernel { kind, rows: of.decode_rows(u32::try_from(rows).unwrap_or(u32::MAX)), special: None }
    }

    /// The problem that it is the kernel of, from that of an attention.
    #[must_use]
    pub fn request(self, of: &KernelTraitsRequest) -> KernelTraitsRequest {
        let SelectedKernel { kind, rows, special } = self;
        let group = if kind == KernelKind::Prefill { of.group } else { rows };
        let usual = if of.prefill == PrefillBackend::Sm90Resident { PrefillBackend::Sm90 } else { of.prefill };
        KernelTraitsRequest { kind, group, prefill: special.unwrap_or(usual), ..*of }
    }

    /// The kernel that has these traits.
    #[must_use]
    pub fn of(traits: &KernelTraits) -> Self {
        let rows = if traits.kind() == KernelKind::Prefill { 0 } else { traits.decode_part().facts().tile_rows };
        SelectedKernel { kind: traits.kind(), rows, special: traits.facts().special }
    }
}

impl fmt::Display for SelectedKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.special) {
            (KernelKind::Prefill, Some(PrefillBackend::Sm90Resident)) => write!(f, "{} of resident keys", self.kind),
            (KernelKind::Prefill, _) => write!(f, "{}", self.kind),
            (KernelKind::Decode | KernelKind::Mixed, _) => write!(f, "{} of {} rows", self.kind, self.rows),
        }
    }
}
