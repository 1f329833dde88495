//! Sm90 prefill of latent attention (MLA), whose values are the first elements of the keys. Two consumer warpgroups
//! share a Q tile, and each has half of the elements of O.

use super::prefill_sm90::{ALIGNMENT, PREFILL_SM90, WARPGROUP_ROWS};
use super::{CommonTraits, Facts, KernelTraitsRequest, panels};

/// Elements of the longest keys whose tiles fit shared memory.
const MAX_HEAD_DIM: u32 = 576;
/// Elements of values: two warpgroups have registers for as many of O.
const VALUE_DIM: u32 = 512;

/// The kernel without its shared memory.
pub(super) const PREFILL_SM90_LATENT: Facts = Facts {
    name: " wgmma latent",
    headers: &["prefill/sm90/latent/cta.cuh", "prefill/sm90/kernel.cuh"],
    part_headers: &[],
    tile_rows: WARPGROUP_ROWS,
    tile_keys: 64,
    warps: 8,
    column_warps: 2,
    stages: 2,
    q_stages: 1,
    ..PREFILL_SM90
};

/// Stages of keys, beside a tile of Q and one of P. Keys of fewer than 16 bits are decoded as they are loaded: where a
/// query has more heads than a CTA has rows, by a cluster of two, each of which decodes half of the keys for both.
pub(super) fn tiles(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Facts> {
    let &CommonTraits { head_dim, value_dim, values_share_keys, dtypes, .. } = common;
    if !values_share_keys || head_dim > MAX_HEAD_DIM || value_dim != VALUE_DIM {
        return None;
    }
    let Facts { tile_rows, tile_keys, stages, .. } = PREFILL_SM90_LATENT;
    let elements = (tile_rows + stages * tile_keys) * panels(head_dim) + tile_rows * tile_keys;
    let of = Facts { smem_bytes: ALIGNMENT + 2 * elements, ..PREFILL_SM90_LATENT };
    let in_clusters = dtypes.kv != dtypes.qo && request.group > tile_rows;
    let (name, tile_rows) = (" wgmma latent clusters", 2 * tile_rows);
    Some(if in_clusters { Facts { name, tile_rows, cluster_ctas: 2, ..of } } else { of })
}
