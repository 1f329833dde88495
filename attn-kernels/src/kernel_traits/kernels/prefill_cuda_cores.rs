//! Prefill on CUDA cores: the warps of a CTA share their keys, and each has rows of its own.

use attn_core::spec::KernelKind;

use super::{CommonTraits, CostKernel, Facts, Kernel, KernelTraitsRequest, WorkerTiles, cuda_cores};

/// Prefill on CUDA cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefillCudaCores(pub(in super::super) WorkerTiles);

impl PrefillCudaCores {
    /// With four warps, or as many as fit.
    pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        if request.kind != KernelKind::Prefill || !request.runs_on_cuda_cores() {
            return None;
        }
        let fits = [4, 2, 1].into_iter().find_map(|warps| Self::with_warps(request, common, warps));
        Some(fits.unwrap_or(Self(WorkerTiles::new(Facts::default().tile_rows, request.widened(true)))))
    }

    /// With this many warps of eight rows, or as many as fit, if some do.
    pub(in super::super) fn with_warps(
        request: &KernelTraitsRequest,
        common: &CommonTraits,
        warps: u32,
    ) -> Option<Self> {
        let most = warps * if common.value_dim > 256 { 4 } else { 8 };
        let rows = [most, most / 2, most / 4].into_iter().filter(|&rows| rows >= warps);
        let of = |rows| WorkerTiles { row_warps: warps, ..WorkerTiles::new(rows, request.widened(true)) };
        rows.map(of)
            .find_map(|tiles| cuda_cores::first_that_fits(common, tiles, [(warps, 2, 2), (warps, 2, 1)].into_iter()))
            .map(Self)
    }
}

impl Kernel for PrefillCudaCores {
    fn facts(&self) -> Facts {
        let (kind, headers) = (KernelKind::Prefill, &["cuda_cores/mma.cuh", "cuda_cores/prefill_kernel.cuh"]);
        Facts { kind, headers, cost: CostKernel::PrefillCudaCores, ..cuda_cores::facts(&self.0) }
    }
    fn name(&self) -> String {
        format!(" rows {} cuda-cores", self.0.rows)
    }
    fn smem_bytes(&self, common: &CommonTraits) -> u32 {
        cuda_cores::smem_bytes(&self.0, common)
    }
}
