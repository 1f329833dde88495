//! Decode on CUDA cores: every warp has keys of its own.

use super::{CUDA_CORES, CommonTraits, CostKernel, Facts, KernelTraitsRequest};

/// The kernel without its tiles.
pub(in super::super) const DECODE_CUDA_CORES: Facts =
    Facts { headers: &["cuda_cores/mma.cuh", "decode/kernel.cuh"], cost: CostKernel::DecodeCudaCores, ..CUDA_CORES };

pub(super) fn tiles(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Facts> {
    let (tile_rows, widened) = (request.decode_rows(request.group), request.widened(common, true));
    let tiles = Facts { tile_rows, widened, ..DECODE_CUDA_CORES };
    // the registers of more rows, longer ones, or hooks leave room for two CTAs
    let few = tile_rows <= if request.rewrites() { 1 } else { 4 } && common.value_dim <= 128;
    let all = [(4, 2, 3), (4, 3, 2), (4, 2, 2), (4, 2, 1), (2, 2, 2), (2, 2, 1), (1, 2, 1)];
    let fits = tiles.with_first_that_fits(common, &all[usize::from(!few)..]);
    Some(fits.unwrap_or_else(|| tiles.with_worker_smem(common)))
}
