//! Decode on tensor cores: every warp has keys of its own, which are the rows of its MMAs.

use super::{CommonTraits, Facts, KernelTraitsRequest, WORKERS};

/// The kernel without its tiles.
pub(in super::super) const DECODE_MMA: Facts = Facts {
    headers: &["decode/swap_ab_mma.cuh", "decode/kernel.cuh"],
    part_headers: &["decode/swap_ab_mma.cuh", "decode/worker.cuh"],
    ..WORKERS
};

/// The first of the tiles below that fits, with as many CTAs per SM as it names. A cubin also runs on GPUs of the
/// architecture with less shared memory, which must hold one CTA.
pub(super) fn tiles(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Facts> {
    let (tile_rows, widened) = (request.decode_rows(request.group), request.widened(common, false));
    let tiles = Facts { tile_rows, widened, warp_keys: wide_keys(common), ..DECODE_MMA };
    // stages of few bytes may not hold the partial states; decoded rows do
    let decoded = Facts { widened: [true, !common.values_share_keys], ..tiles };
    let decodes = || common.packed.and_then(|_| first_that_fits(common, decoded, request.rewrites()));
    let fits = first_that_fits(common, tiles, request.rewrites()).or_else(decodes);
    Some(fits.unwrap_or_else(|| if common.packed.is_some() { decoded } else { tiles }.with_worker_smem(common)))
}

fn first_that_fits(common: &CommonTraits, tiles: Facts, rewrites: bool) -> Option<Facts> {
    let (row_bytes, longest) = (common.key_bytes(), common.head_dim.max(common.value_dim));
    // Three CTAs with two stages have as many bytes in flight as two CTAs with three, and overlap more prologues
    // and arithmetic. Transforms of rows whose length is no power of two need too many registers for three CTAs.
    let padded = rewrites && !(common.head_dim.is_power_of_two() && common.value_dim.is_power_of_two());
    // So do operands that are decoded in registers beside a long row of O.
    let in_registers = common.packed.is_some() && tiles.widened != [true; 2] && longest > 128;
    let three = tiles.tile_rows == 8 && (!common.dtypes.kv.is_fp8() || rewrites) && !(padded || in_registers);
    // One CTA of eight warps has half the workers of two CTAs of four, and so half the partial states.
    let one = tiles.tile_rows == 16 && row_bytes >= 256 && common.packed.is_none();
    let other = if one { (8, 2, 1) } else { (4, 3, 2) };
    let two = [if three { (4, 2, 3) } else { other }, (4, 2, 2)];
    // for long rows: fewer warps with as many stages as fit, or more keys per stage, to hold the partial states
    let long = [(2, 4, 1), (2, 3, 1), (2, 2, 1), (1, 3, 1), (1, 2, 1)];
    let [few_a, few_b] = if longest > 256 { [long[0], long[1]] } else { [(2, 2, 2), (2, 2, 1)] };
    let few = [(4, 3, 1), (4, 2, 1), few_a, few_b];
    let wide = tiles.warp_keys;
    // two CTAs with 16 keys per warp and stage are faster than one CTA with more
    let tries: [(u32, &[_]); 6] = [(wide, &two), (16, &two), (wide, &few), (wide, &long), (32, &few), (32, &long)];
    let tries = tries.into_iter().flat_map(|(warp_keys, sizes)| sizes.iter().map(move |&size| (warp_keys, size)));
    let of = |(warp_keys, (warps, stages, ctas_per_sm))| Facts { warp_keys, warps, stages, ctas_per_sm, ..tiles };
    Facts::first_that_fits(common, tries.map(of))
}

/// Keys of a warp in a stage, unless fewer or more fit better.
pub(in super::super) fn wide_keys(common: &CommonTraits) -> u32 {
    if common.key_bytes() < 256 { 32 } else { 16 }
}
