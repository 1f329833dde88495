//! Prefill on CUDA cores: the warps of a CTA share their keys, and each has rows of its own.

use attn_core::spec::KernelKind;

use super::{CUDA_CORES, CommonTraits, CostKernel, Facts, KernelTraitsRequest};

/// The kernel without its tiles.
pub(super) const PREFILL_CUDA_CORES: Facts = Facts {
    kind: KernelKind::Prefill,
    headers: &["cuda_cores/mma.cuh", "cuda_cores/prefill_kernel.cuh"],
    cost: CostKernel::PrefillCudaCores,
    ..CUDA_CORES
};

/// With four warps, or as many as fit.
pub(super) fn tiles(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Facts> {
    let fits = [4, 2, 1].into_iter().find_map(|warps| with_warps(request, common, warps));
    let none = || Facts { widened: request.widened(common, true), ..PREFILL_CUDA_CORES }.with_worker_smem(common);
    Some(fits.unwrap_or_else(none))
}

/// With this many warps of eight rows, or as many as fit, if some do.
pub(in super::super) fn with_warps(request: &KernelTraitsRequest, common: &CommonTraits, warps: u32) -> Option<Facts> {
    let (most, widened) = (warps * if common.value_dim > 256 { 4 } else { 8 }, request.widened(common, true));
    let mut rows = [most, most / 2, most / 4].into_iter().filter(|&rows| rows >= warps);
    rows.find_map(|tile_rows| {
        let tiles = Facts { tile_rows, row_warps: warps, widened, ..PREFILL_CUDA_CORES };
        tiles.with_first_that_fits(common, &[(warps, 2, 2), (warps, 2, 1)])
    })
}
