//! Sm90 prefill: TMA and WGMMA, with a producer warpgroup and two or three consumer warpgroups.

use attn_core::spec::ComputeType;

use super::{CommonTraits, CostKernel, Facts, KernelTraitsRequest, panels};

/// Upper bound of the shared memory that sm90 prefill takes beside its tiles, in bytes: mbarriers and work tiles.
pub(in super::super) const PIPELINE_STATE_BYTES: u32 = 512;
/// Rows of a warpgroup.
pub(super) const WARPGROUP_ROWS: u32 = 64;
/// WGMMA operands with a 128-byte swizzle are aligned to this many bytes.
pub(super) const ALIGNMENT: u32 = 1024;

/// The kernel without its tiles: one CTA an SM.
pub(super) const PREFILL_SM90: Facts = Facts {
    name: " wgmma",
    headers: &["prefill/sm90/cta.cuh", "prefill/sm90/kernel.cuh"],
    part_headers: &["prefill/sm90/cta.cuh"],
    cost: CostKernel::PrefillSm90,
    producer_warps: 4,
    ctas_per_sm: 1,
    wgmma: Some(ComputeType::Exact),
    ..Facts::USUAL
};

/// With as many keys as leave two pipeline stages. Head dimension 64 has three stages and three consumer warpgroups,
/// because its softmax takes as long as its GEMMs.
pub(in super::super) fn tiles(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Facts> {
    let (tile_rows, tile_keys, stages) = match (panels(common.head_dim), panels(common.value_dim)) {
        _ if common.values_share_keys => return None,
        (..=64, ..=64) => (192, 128, 3),
        (..=192, ..=128) => (128, 128, 2),
        (..=256, ..=256) => (128, 80, 2),
        _ => return None,
    };
    let (preprocessed, skips_tiles) = (request.preprocessed(common), request.skip_softmax);
    Some(with_rows(common, Facts { tile_keys, stages, preprocessed, skips_tiles, ..PREFILL_SM90 }, tile_rows))
}

/// With Q tiles of as many rows.
pub(super) fn with_rows(common: &CommonTraits, of: Facts, tile_rows: u32) -> Facts {
    let stage = of.tile_keys * (panels(common.head_dim) + panels(common.value_dim));
    with_smem(common, of, tile_rows, 2 * of.stages * stage, 2)
}

/// Beside stages of as many bytes with an own O tile, and the most Q tiles that fit then. Warps have 16 rows.
pub(super) fn with_smem(common: &CommonTraits, of: Facts, tile_rows: u32, stages: u32, most_q_tiles: u32) -> Facts {
    let fits = |bytes: u32| bytes + PIPELINE_STATE_BYTES <= common.arch.max_smem();
    let tile = |dim: u32| 2 * tile_rows * panels(dim);
    let (queries, bytes) = (tile(common.head_dim), ALIGNMENT + stages + tile(common.head_dim));
    let smem_o_bytes = if fits(bytes + tile(common.value_dim)) { tile(common.value_dim) } else { 0 };
    let second = most_q_tiles > 1 && smem_o_bytes > 0 && fits(bytes + smem_o_bytes + queries);
    let (second, q_stages) = if second { (queries, 2) } else { (0, 1) };
    Facts { tile_rows, warps: tile_rows / 16, smem_bytes: bytes + smem_o_bytes + second, smem_o_bytes, q_stages, ..of }
}
