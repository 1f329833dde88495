//! Made by `cargo xtask costs` of `costs/*.jsonl`; not to be edited.

use attn_core::spec::KernelKind;

use super::{HookClass, Measured, row};

/// Architecture, kernel, rows of a tile, whether keys have 8 bits, head_dim, hooks, CTAs of an SM; launch, piece, block, first, merge, spread.
#[rustfmt::skip]
pub(super) const TABLE: &[Measured] = &[
    // sm_90: NVIDIA H200, 2026-11-21, commit 2613097
    row(9, KernelKind::Decode, 8, false, 128, HookClass::None, 2, [8000, 1000, 2000, 0, 1500, 100]),
    row(9, KernelKind::Decode, 8, true, 128, HookClass::None, 2, [8000, 1000, 1160, 0, 1500, 100]),
    row(9, KernelKind::Decode, 8, false, 128, HookClass::Rewrites, 3, [8000, 1000, 3180, 0, 1500, 100]),
    row(9, KernelKind::Prefill, 128, false, 64, HookClass::None, 2, [8000, 1000, 1590, 0, 4000, 100]),
    row(9, KernelKind::Prefill, 128, false, 128, HookClass::None, 2, [8000, 1000, 2850, 0, 4000, 100]),
    row(9, KernelKind::Prefill, 128, false, 256, HookClass::None, 1, [8000, 1000, 3270, 0, 4000, 100]),
    row(9, KernelKind::Prefill, 128, true, 128, HookClass::None, 2, [10000, 1000, 2850, 3100, 4000, 100]),
    row(9, KernelKind::Prefill, 128, false, 128, HookClass::Rewrites, 2, [10000, 1000, 2850, 2100, 4000, 100]),
];
