//! The tiles of persistent workers, whose warps have K/V pipelines of their own: decode, and kernels on CUDA cores.

use attn_core::cpu::RowRounding;
use attn_core::spec::KernelKind;

use super::common::{CommonTraits, row_lanes};
use super::facts::Facts;
use crate::cost::CostKernel;

/// What kernels of workers state.
pub(super) const WORKERS: Facts =
    Facts { kind: KernelKind::Decode, cost: CostKernel::Decode, has_workers: true, ..Facts::USUAL };
/// What kernels on CUDA cores state, which share a mainloop in f32.
pub(super) const CUDA_CORES: Facts = Facts {
    name: " cuda-cores",
    part_headers: &["cuda_cores/mma.cuh", "decode/worker.cuh"],
    on_cuda_cores: true,
    rounding: RowRounding::KeysAndValues,
    ..WORKERS
};
/// Bytes of a warp's stage that keep enough loads in flight with eight to twelve warps an SM, on CUDA cores.
const STAGE_BYTES: u32 = 8 << 10;

impl Facts {
    /// Warps, or groups of `row_warps` warps, that have keys of their own.
    pub(super) fn key_warps(&self) -> u32 {
        self.warps / self.row_warps
    }

    /// Bytes of the keys and values of a warp in one pipeline stage.
    pub(super) fn stage_bytes(&self, common: &CommonTraits) -> u32 {
        let [keys, values] = common.rows().map(|row| row_pitch(row.codes) + row.side);
        let stage = self.warp_keys * (keys + if common.values_share_keys { 0 } else { values });
        if common.packed.is_some() { stage.next_multiple_of(128) } else { stage }
    }

    /// Bytes of the decoded rows of a warp, where rows of fewer bits are decoded or transformed.
    fn widened_bytes(&self, common: &CommonTraits) -> u32 {
        let dims = [common.head_dim, common.value_dim].map(|dim| row_pitch(dim * common.dtypes.qo.size() as u32));
        self.widened.into_iter().zip(dims).filter(|(widened, _)| *widened).map(|(_, row)| self.warp_keys * row).sum()
    }

    /// Whether the partial states of a warp fit the memory that they reuse: a stage, or decoded rows of a KV format.
    pub(super) fn holds_partials(&self, common: &CommonTraits) -> bool {
        let decoded = if common.packed.is_some() { self.widened_bytes(common) } else { 0 };
        self.tile_rows * common.value_dim.next_multiple_of(32) * 4 <= self.stage_bytes(common).max(decoded)
    }

    /// With its shared memory: the pipelines, and beside them Q, in f32 and with the probabilities of every warp on
    /// CUDA cores. The merge reuses the memory of Q.
    pub(super) fn with_worker_smem(self, common: &CommonTraits) -> Self {
        let queries = match self.on_cuda_cores {
            true => (common.head_dim + self.step_keys()) * self.tile_rows * 4,
            false => self.tile_rows * row_pitch(common.head_dim * 2),
        };
        let merge = 32 * self.warps / row_lanes(common.value_dim) * (common.value_dim * 4 + 8);
        let pipelines = self.key_warps() * (self.stages * self.stage_bytes(common) + self.widened_bytes(common));
        Facts { smem_bytes: pipelines + queries.max(merge) + self.key_warps() * self.tile_rows * 8, ..self }
    }

    /// The first of some tiles that fits.
    pub(super) fn first_that_fits(common: &CommonTraits, tries: impl Iterator<Item = Facts>) -> Option<Facts> {
        let fits = |of: &Facts| of.holds_partials(common) && common.holds(of.ctas_per_sm, of.smem_bytes);
        tries.map(|of| of.with_worker_smem(common)).find(fits)
    }

    /// On CUDA cores with the first of these numbers of warps, stages and CTAs per SM whose tiles fit.
    pub(super) fn with_first_that_fits(self, common: &CommonTraits, sizes: &[(u32, u32, u32)]) -> Option<Facts> {
        // the keys of a stage: a power of two, so that lanes can share the dims of a key
        let key_bytes = Facts { warp_keys: 1, ..self }.stage_bytes(common);
        let wanted = 1 << (STAGE_BYTES * self.row_warps / key_bytes).clamp(4, 32).ilog2();
        let tries = sizes.iter().flat_map(|&(warps, stages, ctas_per_sm)| {
            let keys = [wanted, 2 * wanted, wanted / 2, 4 * wanted, wanted / 4].into_iter();
            let keys = keys.filter(|keys| (4..=32).contains(keys));
            keys.map(move |warp_keys| Facts { warps, stages, ctas_per_sm, warp_keys, ..self })
        });
        Facts::first_that_fits(common, tries)
    }
}

/// Bytes from row to row of tiles; the same as in `memory/row_tile.cuh`.
fn row_pitch(bytes: u32) -> u32 {
    if bytes > 128 { bytes.next_multiple_of(128) } else { bytes.next_power_of_two().max(16) }
}
