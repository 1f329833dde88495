//! The tiles of persistent workers, whose warps have K/V pipelines of their own: decode, and kernels on CUDA cores.

use attn_core::spec::KernelKind;

use super::common::{CommonTraits, PackedRow, row_lanes};
use super::kernel::Facts;
use crate::cost::CostKernel;

/// The tiles of a kernel of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WorkerTiles {
    /// Rows of a Q tile.
    pub(super) rows: u32,
    /// Warps of a CTA.
    pub(super) warps: u32,
    /// Warps that share their keys, each of which has rows of its own.
    pub(super) row_warps: u32,
    /// Stages of the K/V pipeline of a warp.
    pub(super) stages: u32,
    /// Keys of a warp in one pipeline stage.
    pub(super) warp_keys: u32,
    /// Whether keys, and values, have a second buffer, of elements as wide as those of queries: where hooks transform
    /// rows of fp8, and for rows of KV formats.
    pub(super) widened: [bool; 2],
    /// CTAs of an SM.
    pub(super) ctas_per_sm: u32,
}

impl WorkerTiles {
    /// Tiles of this many rows, of the usual sizes.
    pub(super) fn new(rows: u32, widened: [bool; 2]) -> Self {
        let Facts { warps, row_warps, stages, warp_keys, ctas_per_sm, .. } = Facts::default();
        WorkerTiles { rows, warps, row_warps, stages, warp_keys, widened, ctas_per_sm }
    }

    /// What kernels of workers state; decode on tensor cores, unless they say otherwise.
    pub(super) fn facts(&self) -> Facts {
        let &WorkerTiles { rows: tile_rows, warps, row_warps, stages, warp_keys, ctas_per_sm, .. } = self;
        let (kind, cost, has_workers) = (KernelKind::Decode, CostKernel::Decode, true);
        let sizes = Facts { tile_rows, warps, row_warps, stages, warp_keys, ctas_per_sm, ..Facts::default() };
        Facts { kind, cost, has_workers, ..sizes }
    }

    /// Warps, or groups of `row_warps` warps, that have keys of their own.
    pub(super) fn key_warps(&self) -> u32 {
        self.warps / self.row_warps
    }

    /// Bytes of the keys and values of a warp in one pipeline stage.
    pub(super) fn stage_bytes(&self, common: &CommonTraits) -> u32 {
        let size = common.dtypes.kv.size() as u32;
        let dense = |dim: u32| PackedRow { codes: dim * size, side: 0, linear: None };
        let [keys, values] = common.packed.unwrap_or([dense(common.head_dim), dense(common.value_dim)]);
        let bytes = |row: PackedRow| row_pitch(row.codes) + row.side;
        let stage = self.warp_keys * (bytes(keys) + if common.values_share_keys { 0 } else { bytes(values) });
        if common.packed.is_some() { stage.next_multiple_of(128) } else { stage }
    }

    /// Bytes of the decoded rows of a warp, where rows of fewer bits are decoded or transformed.
    fn widened_bytes(&self, common: &CommonTraits) -> u32 {
        let dims = [common.head_dim, common.value_dim].map(|dim| row_pitch(dim * common.dtypes.qo.size() as u32));
        self.widened.into_iter().zip(dims).filter(|(widened, _)| *widened).map(|(_, row)| self.warp_keys * row).sum()
    }

    /// Whether the partial states of a warp fit the memory that they reuse: a stage, or the decoded rows of a KV
    /// format.
    pub(super) fn holds_partials(&self, common: &CommonTraits) -> bool {
        let decoded = if common.packed.is_some() { self.widened_bytes(common) } else { 0 };
        self.rows * common.value_dim.next_multiple_of(32) * 4 <= self.stage_bytes(common).max(decoded)
    }

    /// Dynamic shared memory of a CTA beside whose pipelines Q takes this many bytes. The merge reuses those.
    pub(super) fn smem_bytes(&self, common: &CommonTraits, queries: u32) -> u32 {
        let merge = 32 * self.warps / row_lanes(common.value_dim) * (common.value_dim * 4 + 8);
        let pipelines = self.key_warps() * (self.stages * self.stage_bytes(common) + self.widened_bytes(common));
        pipelines + queries.max(merge) + self.key_warps() * self.rows * 8
    }
}

/// Bytes from row to row of tiles; the same as in `memory/row_tile.cuh`.
pub(super) fn row_pitch(bytes: u32) -> u32 {
    if bytes > 128 { bytes.next_multiple_of(128) } else { bytes.next_power_of_two().max(16) }
}
