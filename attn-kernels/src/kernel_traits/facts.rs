//! What the host knows of a kernel: each of `kernels` states it in its file.

use attn_core::cpu::RowRounding;
use attn_core::spec::{ComputeType, KernelKind, PrefillBackend};

use crate::cost::CostKernel;

/// What a kernel states of itself. Its text has all sizes, those that it does not use as in `Facts::USUAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The kernel family.
    pub kind: KernelKind,
    /// What tells it from the other kernels of its family in names, each word after a space.
    pub(crate) name: &'static str,
    /// The CUDA headers of its unit, behind the variant; without K/V preprocessing and the merge.
    pub(crate) headers: &'static [&'static str],
    /// The headers of its namespace as a part of a mixed kernel.
    pub(crate) part_headers: &'static [&'static str],
    /// The row of costs that is measured of it, or of the kernel that is most like it.
    pub(crate) cost: CostKernel,
    /// Rows of a Q tile: tokens times query heads of a KV head (PackGQA).
    pub tile_rows: u32,
    /// CTAs of a cluster, which share the rows of a Q tile.
    pub cluster_ctas: u32,
    /// Prefill: keys of a KV tile.
    pub tile_keys: u32,
    /// MMA warps of a CTA.
    pub(crate) warps: u32,
    /// Warps of a producer warpgroup; 0 if MMA warps also load.
    pub(crate) producer_warps: u32,
    /// Warps that share their rows, each of which computes other columns of the output.
    pub(crate) column_warps: u32,
    /// Warps that share their keys, each of which has rows of its own.
    pub(crate) row_warps: u32,
    /// Stages of the K/V pipeline; of a warp, in kernels of workers.
    pub(crate) stages: u32,
    /// Keys of a warp in one pipeline stage, of kernels of workers.
    pub(crate) warp_keys: u32,
    /// Kernels of workers: whether keys, and values, have a second buffer, of elements as wide as those of queries:
    /// where hooks transform rows of fp8, and for rows of KV formats.
    pub(crate) widened: [bool; 2],
    /// CTAs of an SM that registers and shared memory have to suffice for (`__launch_bounds__`).
    pub ctas_per_sm: u32,
    /// Dynamic shared memory of a CTA, in bytes (`SMEM_BYTES` in CUDA).
    pub(super) smem_bytes: u32,
    /// Whether the launch is of persistent workers, each of which runs its part of the work list, and merges the states
    /// whose split-KV semaphore it decrements last. Others run a work item in each CTA, and need the merge kernel.
    pub has_workers: bool,
    /// Whether both GEMMs run on CUDA cores, in f32. Otherwise they run on tensor cores.
    pub on_cuda_cores: bool,
    /// What it rounds besides f32.
    pub rounding: RowRounding,
    /// Whether the K/V preprocessing kernel writes keys, and values, to the workspace: where hooks transform them, or
    /// they have fewer than 16 bits.
    pub preprocessed: [bool; 2],
    /// Keys of a tile of values, if the preprocessing kernel writes them transposed. The kernel then reads keys and
    /// values of 8 bits in pairs.
    pub(crate) transposed_keys: Option<u32>,
    /// The compute type of WGMMA, for sm90 prefill: warp-specialised (a producer and consumer warpgroups) and
    /// persistent (no more CTAs than the device holds, each of which takes work tiles from a dynamic tile scheduler).
    pub(crate) wgmma: Option<ComputeType>,
    /// Sm90 prefill: bytes of the O tile, if it has its own; 0 if it reuses the memory of Q.
    pub(crate) smem_o_bytes: u32,
    /// Sm90 prefill: Q tiles. With two, the producer loads the Q of the next work tile during the mainloop.
    pub(crate) q_stages: u32,
    /// Prefill: the backend by which it runs some batches in place of the usual kernel.
    pub special: Option<PrefillBackend>,
    /// Sm90 prefill: whether work items of all KV heads interleave, whatever L2 holds.
    pub(crate) interleaves_all_heads: bool,
    /// Sm90 prefill: whether KV tiles of little weight are left out.
    pub(crate) skips_tiles: bool,
}

impl Facts {
    /// What kernels state unless they say otherwise: sm80 prefill.
    pub(super) const USUAL: Facts = Facts {
        kind: KernelKind::Prefill,
        name: "",
        headers: &[],
        part_headers: &[],
        cost: CostKernel::Prefill,
        tile_rows: 128,
        cluster_ctas: 1,
        tile_keys: 64,
        warps: 4,
        producer_warps: 0,
        column_warps: 1,
        row_warps: 1,
        stages: 2,
        warp_keys: 16,
        widened: [false; 2],
        ctas_per_sm: 2,
        smem_bytes: 0,
        has_workers: false,
        on_cuda_cores: false,
        rounding: RowRounding::Elements,
        preprocessed: [false; 2],
        transposed_keys: None,
        wgmma: None,
        smem_o_bytes: 0,
        q_stages: 0,
        special: None,
        interleaves_all_heads: false,
        skips_tiles: false,
    };

    /// Rows of a Q tile that a CTA has.
    pub fn cta_rows(&self) -> u32 {
        self.tile_rows / self.cluster_ctas
    }

    /// Keys of one mainloop step. KV splits are best cut at multiples of it.
    pub(crate) fn step_keys(&self) -> u32 {
        if self.has_workers { self.warp_keys * self.key_warps() } else { self.tile_keys }
    }
}
