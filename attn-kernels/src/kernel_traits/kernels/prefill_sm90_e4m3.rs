//! Sm90 prefill whose GEMMs take e4m3 operands. The preprocessing kernel writes the values transposed.

use attn_core::cpu::RowRounding;
use attn_core::dtype::Dtype;
use attn_core::spec::ComputeType;

use super::prefill_sm90::{PREFILL_SM90, with_smem};
use super::{CommonTraits, DTYPES, Facts, KernelTraitsRequest, panels};

const TILE_KEYS: u32 = 128;

/// The kernel without its tiles.
pub(super) const PREFILL_SM90_E4M3: Facts = Facts {
    name: " wgmma e4m3 products", // records of kernels have this name
    headers: &["prefill/sm90/e4m3/cta.cuh", "prefill/sm90/kernel.cuh"],
    part_headers: &[],
    tile_keys: TILE_KEYS,
    stages: 3,
    rounding: RowRounding::E4m3Compute,
    preprocessed: [false, true],
    transposed_keys: Some(TILE_KEYS),
    wgmma: Some(ComputeType::E4m3),
    ..PREFILL_SM90
};

/// Stages have pairs of keys, and transposed values with eight rows of ones. Consumers keep Q in registers.
pub(super) fn tiles(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Facts> {
    let &CommonTraits { head_dim, value_dim, dtypes, .. } = common;
    let hooks = request.key_hooks || request.value_hooks || request.key_lists;
    let types = DTYPES.contains(&dtypes.qo) && dtypes.kv == Dtype::E4m3 && dtypes.format.is_none();
    let shapes = [head_dim, value_dim] == [128; 2] && !request.head_dim_vo.shares_keys();
    let stage = TILE_KEYS * panels(head_dim / 2) + (value_dim + 8) * panels(TILE_KEYS / 2);
    let of = || with_smem(common, PREFILL_SM90_E4M3, 128, 2 * PREFILL_SM90_E4M3.stages * stage, 1);
    (shapes && types && !hooks).then(of)
}
