//! Sm90 prefill: TMA and WGMMA, with a producer warpgroup and two or three consumer warpgroups.

use attn_core::spec::{ComputeType, KernelKind};

use super::{CommonTraits, CostKernel, Facts, Kernel, KernelTraitsRequest, Preprocessed, panels};

/// Upper bound of the shared memory that sm90 prefill takes beside its tiles, in bytes: mbarriers and work tiles.
pub(in super::super) const PIPELINE_STATE_BYTES: u32 = 512;
/// WGMMA operands with a 128-byte swizzle are aligned to this many bytes.
const ALIGNMENT: u32 = 1024;
/// Warps of the producer warpgroup.
const PRODUCER_WARPS: u32 = 4;

/// Prefill with TMA and WGMMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefillSm90 {
    pub(super) tile_rows: u32,
    pub(super) tile_keys: u32,
    pub(super) stages: u32,
    pub(super) preprocessed: Preprocessed,
}

impl PrefillSm90 {
    pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        if request.kind != KernelKind::Prefill || !request.wants_sm90_prefill() {
            return None;
        }
        Self::of(request, common)
    }

    /// With as many keys as leave two pipeline stages. Head dimension 64 has three stages and three consumer
    /// warpgroups, because its softmax takes as long as its GEMMs.
    pub(in super::super) fn of(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        if !common.arch.has_wgmma() || common.values_share_keys {
            return None;
        }
        let (tile_rows, tile_keys, stages) = match (panels(common.head_dim), panels(common.value_dim)) {
            (..=64, ..=64) => (192, 128, 3),
            (..=192, ..=128) => (128, 128, 2),
            (..=256, ..=256) => (128, 80, 2),
            _ => return None,
        };
        Some(PrefillSm90 { tile_rows, tile_keys, stages, preprocessed: request.preprocessed() })
    }

    /// Where O and Q are.
    pub(super) fn smem(&self, common: &CommonTraits) -> Smem {
        let (keys, values) = (panels(common.head_dim), panels(common.value_dim));
        Smem::of(common, self.tile_rows, 2 * self.stages * self.tile_keys * (keys + values), 2)
    }
}

/// The shared memory of sm90 prefill.
pub(super) struct Smem {
    /// Bytes of the tiles.
    pub(super) bytes: u32,
    /// Bytes of the O tile, if it has its own; 0 if it reuses the memory of Q.
    pub(super) outputs: u32,
    /// Q tiles. With two, the producer loads the Q of the next work tile during the mainloop.
    pub(super) query_stages: u32,
}

impl Smem {
    /// Of stages of as many bytes, with an own O tile and the most Q tiles that fit beside them.
    pub(super) fn of(common: &CommonTraits, tile_rows: u32, stages: u32, most_q_tiles: u32) -> Self {
        let fits = |bytes: u32| bytes + PIPELINE_STATE_BYTES <= common.arch.max_smem();
        let tile = |dim: u32| 2 * tile_rows * panels(dim);
        let (queries, bytes) = (tile(common.head_dim), ALIGNMENT + stages + tile(common.head_dim));
        let outputs = if fits(bytes + tile(common.value_dim)) { tile(common.value_dim) } else { 0 };
        let second = most_q_tiles > 1 && outputs > 0 && fits(bytes + outputs + queries);
        let (second, query_stages) = if second { (queries, 2) } else { (0, 1) };
        Smem { bytes: bytes + outputs + second, outputs, query_stages }
    }

    /// The constants of the template that say where O and Q are.
    pub(super) fn constants(&self, query_stages: u32, resident_keys: bool) -> String {
        let outputs = self.outputs;
        format!(
            "constexpr int SMEM_O_BYTES = {outputs};\n\
            constexpr int Q_STAGES = {query_stages};\n\
            constexpr bool RESIDENT_KEYS = {resident_keys};\n"
        )
    }
}

/// What sm90 prefill states: one CTA an SM, with warps of 16 rows.
pub(super) fn facts_of(tile_rows: u32, tile_keys: u32, stages: u32) -> Facts {
    let (warps, producer_warps, wgmma) = (tile_rows / 16, PRODUCER_WARPS, Some(ComputeType::Exact));
    let sizes = Facts { tile_rows, tile_keys, stages, warps, producer_warps, ctas_per_sm: 1, ..Facts::default() };
    Facts { cost: CostKernel::PrefillSm90, wgmma, ..sizes }
}

impl Kernel for PrefillSm90 {
    fn facts(&self) -> Facts {
        let (headers, part_headers) = (&["prefill/sm90/cta.cuh", "prefill/sm90/kernel.cuh"], &["prefill/sm90/cta.cuh"]);
        let facts = facts_of(self.tile_rows, self.tile_keys, self.stages);
        Facts { headers, part_headers, preprocessed: self.preprocessed, ..facts }
    }
    fn name(&self) -> String {
        " wgmma".to_owned()
    }
    fn own_constants(&self, common: &CommonTraits) -> String {
        let smem = self.smem(common);
        smem.constants(smem.query_stages, false)
    }
    fn smem_bytes(&self, common: &CommonTraits) -> u32 {
        self.smem(common).bytes
    }
}
