//! Decode on tensor cores: every warp has keys of its own, which are the rows of its MMAs.

use attn_core::spec::KernelKind;

use super::{CommonTraits, Facts, Kernel, KernelTraitsRequest, WorkerTiles, row_pitch};

/// Decode on tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeMma(pub(in super::super) WorkerTiles);

impl DecodeMma {
    pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        let tiles = WorkerTiles::new(request.decode_rows(), request.widened(false));
        (request.kind == KernelKind::Decode).then(|| Self::first_that_fits(common, tiles, request.rewrites()))
    }

    /// The first of the tiles below that fits, with as many CTAs per SM as it names. A cubin also runs on GPUs of the
    /// architecture with less shared memory, which must hold one CTA.
    fn first_that_fits(common: &CommonTraits, tiles: WorkerTiles, rewrites: bool) -> Self {
        let (row_bytes, longest) = (common.key_bytes(), common.head_dim.max(common.value_dim));
        let tiles = WorkerTiles { warp_keys: Self::wide_keys(common), ..tiles };
        // Three CTAs with two stages have as many bytes in flight as two CTAs with three, and overlap more prologues
        // and arithmetic. Transforms of rows whose length is no power of two need too many registers for three CTAs.
        let padded = rewrites && !(common.head_dim.is_power_of_two() && common.value_dim.is_power_of_two());
        // So do operands that are decoded in registers beside a long row of O.
        let in_registers = common.packed.is_some() && tiles.widened != [true; 2];
        let padded = padded || in_registers && longest > 128;
        let three = tiles.rows == 8 && (!common.dtypes.kv.is_fp8() || rewrites) && !padded;
        // One CTA of eight warps has half the workers of two CTAs of four, and so half the partial states.
        let one = tiles.rows == 16 && row_bytes >= 256 && common.packed.is_none();
        let first = if three {
            (4, 2, 3)
        } else if one {
            (8, 2, 1)
        } else {
            (4, 3, 2)
        };
        let (two, few) = ([first, (4, 2, 2)], [(4, 3, 1), (4, 2, 1), (2, 2, 2), (2, 2, 1)]);
        let of = |warp_keys| {
            move |(warps, stages, ctas_per_sm)| WorkerTiles { warp_keys, warps, stages, ctas_per_sm, ..tiles }
        };
        // two CTAs with 16 keys per warp and stage are faster than one CTA with more
        let tries = two.map(of(tiles.warp_keys)).into_iter().chain(two.map(of(16)));
        // for long rows: fewer warps with as many stages as fit, or more keys per stage so that it holds the partial
        // states
        let long = [(2, 4, 1), (2, 3, 1), (2, 2, 1), (1, 3, 1), (1, 2, 1)];
        let few = if longest > 256 { [few[0], few[1], long[0], long[1]] } else { few };
        let mut tries = tries
            .chain(few.map(of(tiles.warp_keys)))
            .chain(long.map(of(tiles.warp_keys)))
            .chain(few.map(of(32)))
            .chain(long.map(of(32)))
            .map(Self);
        let fits = |of: &Self| of.0.holds_partials(common) && common.holds(of.0.ctas_per_sm, of.smem_bytes(common));
        // stages of few bytes may not hold the partial states; decoded rows do
        let widened = [true, !common.values_share_keys];
        let decodes_rows = common.packed.is_some() && tiles.widened != widened;
        let decoded = || match decodes_rows {
            true => Self::first_that_fits(common, WorkerTiles { widened, ..tiles }, rewrites),
            false => Self(tiles),
        };
        tries.find(fits).unwrap_or_else(decoded)
    }

    /// Keys of a warp in a stage, unless fewer or more fit better.
    pub(in super::super) fn wide_keys(common: &CommonTraits) -> u32 {
        if common.key_bytes() < 256 { 32 } else { 16 }
    }
}

impl Kernel for DecodeMma {
    fn facts(&self) -> Facts {
        let part_headers = &["decode/swap_ab_mma.cuh", "decode/worker.cuh"];
        Facts { headers: &["decode/swap_ab_mma.cuh", "decode/kernel.cuh"], part_headers, ..self.0.facts() }
    }
    fn name(&self) -> String {
        format!(" rows {}", self.0.rows)
    }
    fn smem_bytes(&self, common: &CommonTraits) -> u32 {
        self.0.smem_bytes(common, self.0.rows * row_pitch(common.head_dim * 2))
    }
    fn decodes_in_registers(&self, common: &CommonTraits) -> [bool; 2] {
        self.0.widened.map(|widened| !widened && !common.values_share_keys)
    }
}
