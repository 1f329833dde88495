//! Sm80 prefill: `cp.async` and `mma.sync`.

use super::{CommonTraits, Facts, KernelTraitsRequest, STATIC_BYTES, panels};

/// The kernel without its tiles.
pub(super) const PREFILL_SM80: Facts = Facts {
    headers: &["prefill/sm80/kernel.cuh"],
    part_headers: &["prefill/sm80/mainloop.cuh"],
    stages: 2,
    ..Facts::USUAL
};

/// The tiles that measured best on an H200 for head dimensions 64, 128 and 256. Other head dimensions take the tiles of
/// the next larger one, as far as they fit.
pub(super) fn tiles(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Facts> {
    let (most, least) = (common.arch.max_smem(), common.arch.min_smem());
    let (large, preprocessed) = (most > 200 << 10, request.preprocessed(common));
    let of = |tile_rows, tile_keys, warps, ctas_per_sm| {
        with_smem(common, Facts { tile_rows, tile_keys, warps, ctas_per_sm, preprocessed, ..PREFILL_SM80 })
    };
    Some(match (panels(common.head_dim), panels(common.value_dim)) {
        (..=64, ..=64) => of(128, 96, 4, 2),
        (..=128, ..=128) => of(128, 64, 4, 2),
        // as many keys as allow two CTAs per SM
        (..=256, ..=128) => {
            let tries = [48, 32, 16].map(|keys| of(128, keys, 4, 2));
            let an_sm = if large { most + 1024 } else { 2 * least };
            tries.into_iter().find(|of| 2 * (of.smem_bytes + 1024) <= an_sm).unwrap_or(tries[2])
        }
        (..=256, ..=256) if large => of(128, 64, 8, 1),
        (..=256, ..=256) => of(64, 32, 4, 2),
        // one CTA per SM, with as many rows and keys as fit
        (_, values) => {
            let column_warps = values.div_ceil(256);
            let tries = [(64, 64), (64, 32), (32, 32), (32, 16), (16, 16)]
                .map(|(rows, keys)| Facts { column_warps, ..of(rows, keys, rows / 16 * column_warps, 1) });
            // a warp loads four rows at a time
            let fits = |of: &Facts| of.tile_keys.is_multiple_of(4 * of.warps) && of.smem_bytes + STATIC_BYTES <= least;
            tries.into_iter().find(fits).unwrap_or(tries[4])
        }
    })
}

/// As a part of a mixed kernel, whose decode part has four warps; `None` if none fits these head dimensions.
pub(in super::super) fn part(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Facts> {
    let tiles = tiles(request, common)?;
    if (tiles.warps, tiles.column_warps) == (4, 1) {
        return Some(tiles);
    }
    let smaller = Facts { tile_rows: 64, tile_keys: 32, warps: 4, ctas_per_sm: 2, ..tiles };
    (common.head_dim.max(common.value_dim) <= 256).then(|| with_smem(common, smaller))
}

fn with_smem(common: &CommonTraits, of: Facts) -> Facts {
    let keys = panels(common.head_dim);
    let values = if common.values_share_keys { 0 } else { panels(common.value_dim) };
    Facts { smem_bytes: 2 * (of.tile_rows * keys + of.stages * of.tile_keys * (keys + values)), ..of }
}
