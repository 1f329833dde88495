//! Decode on CUDA cores: every warp has keys of its own.

use attn_core::spec::KernelKind;

use super::{CommonTraits, CostKernel, Facts, Kernel, KernelTraitsRequest, WorkerTiles, cuda_cores};

/// Decode on CUDA cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeCudaCores(pub(in super::super) WorkerTiles);

impl DecodeCudaCores {
    pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        if request.kind != KernelKind::Decode || !request.runs_on_cuda_cores() {
            return None;
        }
        let tiles = WorkerTiles::new(request.decode_rows(), request.widened(true));
        // the registers of more rows, longer ones, or hooks leave room for two CTAs
        let few = tiles.rows <= if request.rewrites() { 1 } else { 4 } && common.value_dim <= 128;
        let three: &[_] = if few { &[(4, 2, 3)] } else { &[] };
        let two = [(4, 3, 2), (4, 2, 2), (4, 2, 1), (2, 2, 2), (2, 2, 1), (1, 2, 1)];
        Some(Self(cuda_cores::first_that_fits(common, tiles, three.iter().chain(&two).copied()).unwrap_or(tiles)))
    }
}

impl Kernel for DecodeCudaCores {
    fn facts(&self) -> Facts {
        let headers = &["cuda_cores/mma.cuh", "decode/kernel.cuh"];
        Facts { headers, cost: CostKernel::DecodeCudaCores, ..cuda_cores::facts(&self.0) }
    }
    fn name(&self) -> String {
        format!(" rows {} cuda-cores", self.0.rows)
    }
    fn smem_bytes(&self, common: &CommonTraits) -> u32 {
        cuda_cores::smem_bytes(&self.0, common)
    }
}
