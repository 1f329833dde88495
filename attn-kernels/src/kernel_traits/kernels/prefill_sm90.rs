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

    /// Bytes of all stages and of a Q tile.
    fn tile_bytes(&self, common: &CommonTraits) -> u32 {
        let (keys, values) = (panels(common.head_dim), panels(common.value_dim));
        ALIGNMENT + 2 * (self.tile_rows * keys + self.stages * self.tile_keys * (keys + values))
    }

    fn query_bytes(&self, common: &CommonTraits) -> u32 {
        2 * self.tile_rows * panels(common.head_dim)
    }

    /// Bytes of the O tile in shared memory, if it has its own; 0 if it reuses the memory of Q.
    pub(super) fn output_bytes(&self, common: &CommonTraits) -> u32 {
        own_output_bytes(common, self.tile_rows, self.tile_bytes(common))
    }

    /// Q tiles that fit shared memory. With two, the producer loads the Q of the next work tile during the mainloop.
    pub(super) fn query_stages(&self, common: &CommonTraits) -> u32 {
        let (outputs, queries) = (self.output_bytes(common), self.query_bytes(common));
        if outputs > 0 && fits(common, self.tile_bytes(common) + outputs + queries) { 2 } else { 1 }
    }
}

/// Bytes of an O tile, if it fits beside tiles of as many bytes.
pub(super) fn own_output_bytes(common: &CommonTraits, tile_rows: u32, tile_bytes: u32) -> u32 {
    let bytes = 2 * tile_rows * panels(common.value_dim);
    if fits(common, tile_bytes + bytes) { bytes } else { 0 }
}

fn fits(common: &CommonTraits, bytes: u32) -> bool {
    bytes + PIPELINE_STATE_BYTES <= common.arch.max_smem()
}

/// The constants of the template that say where O and Q are.
pub(super) fn output_constants(output_bytes: u32, query_stages: u32) -> String {
    format!("constexpr int SMEM_O_BYTES = {output_bytes};\nconstexpr int Q_STAGES = {query_stages};\n")
}

/// What sm90 prefill states: one CTA an SM, with warps of 16 rows.
pub(super) fn facts_of(tile_rows: u32, tile_keys: u32, stages: u32) -> Facts {
    let (warps, producer_warps, wgmma) = (tile_rows / 16, PRODUCER_WARPS, Some(ComputeType::Exact));
    let sizes = Facts { tile_rows, tile_keys, stages, warps, producer_warps, ctas_per_sm: 1, ..Facts::default() };
    Facts { cost: CostKernel::PrefillSm90, wgmma, ..sizes }
}

impl Kernel for PrefillSm90 {
    fn facts(&self) -> Facts {
        let (headers, part_headers) = (&["prefill/sm90/kernel.cuh"], &["prefill/sm90/cta.cuh"]);
        let facts = facts_of(self.tile_rows, self.tile_keys, self.stages);
        Facts { headers, part_headers, preprocessed: self.preprocessed, ..facts }
    }
    fn name(&self) -> String {
        " wgmma".to_owned()
    }
    fn own_constants(&self, common: &CommonTraits) -> String {
        output_constants(self.output_bytes(common), self.query_stages(common))
    }
    fn smem_bytes(&self, common: &CommonTraits) -> u32 {
        let second_query_tile = (self.query_stages(common) - 1) * self.query_bytes(common);
        self.tile_bytes(common) + self.output_bytes(common) + second_query_tile
    }
}
