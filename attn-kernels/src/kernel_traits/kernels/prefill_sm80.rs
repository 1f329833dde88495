//! Sm80 prefill: `cp.async` and `mma.sync`.

use attn_core::spec::KernelKind;

use super::{CommonTraits, Facts, Kernel, KernelTraitsRequest, Preprocessed, STATIC_BYTES, panels};

/// Stages of the K/V pipeline.
const STAGES: u32 = 2;

/// Prefill with `cp.async` and `mma.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefillSm80 {
    tile_rows: u32,
    tile_keys: u32,
    warps: u32,
    /// Warps that share their rows, each of which computes other columns of the output.
    column_warps: u32,
    ctas_per_sm: u32,
    preprocessed: Preprocessed,
}

impl PrefillSm80 {
    pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        (request.kind == KernelKind::Prefill).then(|| Self::of(request, common))
    }

    /// The tiles that measured best on an H200 for head dimensions 64, 128 and 256. Other head dimensions take the
    /// tiles of the next larger one, as far as they fit.
    fn of(request: &KernelTraitsRequest, common: &CommonTraits) -> Self {
        let (most, least) = (common.arch.max_smem(), common.arch.min_smem());
        let (large, preprocessed) = (most > 200 << 10, request.preprocessed());
        let of = |tile_rows, tile_keys, warps, ctas_per_sm| PrefillSm80 {
            tile_rows,
            tile_keys,
            warps,
            column_warps: 1,
            ctas_per_sm,
            preprocessed,
        };
        match (panels(common.head_dim), panels(common.value_dim)) {
            (..=64, ..=64) => of(128, 96, 4, 2),
            (..=128, ..=128) => of(128, 64, 4, 2),
            // as many keys as allow two CTAs per SM
            (..=256, ..=128) => {
                let tries = [48, 32, 16].map(|keys| of(128, keys, 4, 2));
                let an_sm = if large { most + 1024 } else { 2 * least };
                tries.into_iter().find(|of| 2 * (of.smem_bytes(common) + 1024) <= an_sm).unwrap_or(tries[2])
            }
            (..=256, ..=256) if large => of(128, 64, 8, 1),
            (..=256, ..=256) => of(64, 32, 4, 2),
            // one CTA per SM, with as many rows and keys as fit
            (_, values) => {
                let column_warps = values.div_ceil(256);
                let tries = [(64, 64), (64, 32), (32, 32), (32, 16), (16, 16)]
                    .map(|(rows, keys)| PrefillSm80 { column_warps, ..of(rows, keys, rows / 16 * column_warps, 1) });
                let fits = |of: &PrefillSm80| {
                    // a warp loads four rows at a time
                    of.tile_keys.is_multiple_of(4 * of.warps) && of.smem_bytes(common) + STATIC_BYTES <= least
                };
                tries.into_iter().find(fits).unwrap_or(tries[4])
            }
        }
    }

    /// As a part of a mixed kernel, whose decode part has four warps; `None` if none fits these head dimensions.
    pub(in super::super) fn part(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        match Self::of(request, common) {
            tiles if tiles.warps == 4 && tiles.column_warps == 1 => Some(tiles),
            tiles if common.head_dim.max(common.value_dim) <= 256 => {
                let (tile_rows, tile_keys) = (64, 32);
                Some(PrefillSm80 { tile_rows, tile_keys, warps: 4, ctas_per_sm: 2, ..tiles })
            }
            _ => None,
        }
    }

    /// With as many CTAs of an SM.
    pub(in super::super) fn with_ctas(self, ctas_per_sm: u32) -> Self {
        PrefillSm80 { ctas_per_sm, ..self }
    }
}

impl Kernel for PrefillSm80 {
    fn facts(&self) -> Facts {
        let &PrefillSm80 { tile_rows, tile_keys, warps, column_warps, ctas_per_sm, preprocessed } = self;
        let (headers, part_headers) = (&["prefill/sm80/kernel.cuh"], &["prefill/sm80/mainloop.cuh"]);
        let sizes = Facts { tile_rows, tile_keys, warps, column_warps, ctas_per_sm, ..Facts::default() };
        Facts { headers, part_headers, stages: STAGES, preprocessed, ..sizes }
    }
    fn name(&self) -> String {
        String::new()
    }
    fn smem_bytes(&self, common: &CommonTraits) -> u32 {
        let keys = panels(common.head_dim);
        let values = if common.values_share_keys { 0 } else { panels(common.value_dim) };
        2 * (self.tile_rows * keys + STAGES * self.tile_keys * (keys + values))
    }
}
