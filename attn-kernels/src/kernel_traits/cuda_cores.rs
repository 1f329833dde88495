//! The tiles of kernels on CUDA cores, which share a mainloop in f32.

use attn_core::cpu::RowRounding;

use super::common::CommonTraits;
use super::kernel::Facts;
use super::worker_tiles::WorkerTiles;

/// Bytes of a warp's stage that keep enough loads in flight with eight to twelve warps an SM.
const STAGE_BYTES: u32 = 8 << 10;

/// What kernels on CUDA cores state.
pub(super) fn facts(tiles: &WorkerTiles) -> Facts {
    let (part_headers, rounding) = (&["cuda_cores/mma.cuh", "decode/worker.cuh"], RowRounding::KeysAndValues);
    Facts { part_headers, on_cuda_cores: true, rounding, ..tiles.facts() }
}

/// Dynamic shared memory: beside the pipelines Q in f32, and the probabilities of every warp.
pub(super) fn smem_bytes(tiles: &WorkerTiles, common: &CommonTraits) -> u32 {
    tiles.smem_bytes(common, (common.head_dim + tiles.facts().step_keys()) * tiles.rows * 4)
}

/// The first of these numbers of warps, stages and CTAs per SM whose tiles fit shared memory.
pub(super) fn first_that_fits(
    common: &CommonTraits,
    tiles: WorkerTiles,
    configurations: impl Iterator<Item = (u32, u32, u32)>,
) -> Option<WorkerTiles> {
    // the keys of a stage: a power of two, so that lanes can share the dims of a key
    let key_bytes = WorkerTiles { warp_keys: 1, ..tiles }.stage_bytes(common);
    let wanted = (STAGE_BYTES * tiles.row_warps / key_bytes).clamp(4, 32);
    let wanted = 1 << wanted.ilog2();
    let mut tries = configurations.flat_map(|(warps, stages, ctas_per_sm)| {
        let keys = [wanted, 2 * wanted, wanted / 2, 4 * wanted, wanted / 4].into_iter();
        let keys = keys.filter(|keys| (4..=32).contains(keys));
        keys.map(move |warp_keys| WorkerTiles { warps, stages, ctas_per_sm, warp_keys, ..tiles })
    });
    tries.find(|tiles| tiles.holds_partials(common) && common.holds(tiles.ctas_per_sm, smem_bytes(tiles, common)))
}
