//! Sm90 prefill whose GEMMs take e4m3 operands. The preprocessing kernel writes the values transposed.

use attn_core::cpu::RowRounding;
use attn_core::dtype::Dtype;
use attn_core::spec::{ComputeType, KernelKind};

use super::prefill_sm90::{Smem, facts_of};
use super::{CommonTraits, DTYPES, Facts, Kernel, KernelTraitsRequest, Preprocessed, panels};

const TILE_ROWS: u32 = 128;
const TILE_KEYS: u32 = 128;
const STAGES: u32 = 3;
/// Q tiles in shared memory: consumers keep Q in registers.
const Q_STAGES: u32 = 1;

/// Sm90 prefill that computes in e4m3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefillSm90E4m3;

impl PrefillSm90E4m3 {
    pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        (request.compute_type == ComputeType::E4m3 && Self::supports(request, common)).then_some(Self)
    }

    /// Whether it runs a problem.
    pub(in super::super) fn supports(request: &KernelTraitsRequest, common: &CommonTraits) -> bool {
        let &CommonTraits { head_dim, value_dim, dtypes, arch, .. } = common;
        let hooks = request.key_hooks || request.value_hooks || request.key_lists;
        let types = DTYPES.contains(&dtypes.qo) && dtypes.kv == Dtype::E4m3 && dtypes.format.is_none();
        let shapes = [head_dim, value_dim] == [128; 2] && !request.head_dim_vo.shares_keys();
        let kernel = request.kind == KernelKind::Prefill && request.wants_sm90_prefill() && arch.has_wgmma();
        kernel && shapes && types && !hooks
    }

    /// Stages have pairs of keys, and transposed values with eight rows of ones.
    fn smem(common: &CommonTraits) -> Smem {
        let stage = TILE_KEYS * panels(common.head_dim / 2) + (common.value_dim + 8) * panels(TILE_KEYS / 2);
        Smem::of(common, TILE_ROWS, 2 * STAGES * stage, Q_STAGES)
    }
}

impl Kernel for PrefillSm90E4m3 {
    fn facts(&self) -> Facts {
        Facts {
            headers: &["prefill/sm90/e4m3/cta.cuh", "prefill/sm90/kernel.cuh"],
            rounding: RowRounding::E4m3Compute,
            preprocessed: Preprocessed { keys: false, values: true },
            transposed_keys: Some(TILE_KEYS),
            wgmma: Some(ComputeType::E4m3),
            ..facts_of(TILE_ROWS, TILE_KEYS, STAGES)
        }
    }
    fn name(&self) -> String {
        " wgmma e4m3 products".to_owned() // records of kernels have this name
    }
    fn own_constants(&self, common: &CommonTraits) -> String {
        Self::smem(common).constants(Q_STAGES, false)
    }
    fn smem_bytes(&self, common: &CommonTraits) -> u32 {
        Self::smem(common).bytes
    }
}
