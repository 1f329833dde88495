//! What the host asks a kernel: each of `kernels` answers in its file.

use attn_core::batch::Layout;
use attn_core::cpu::RowRounding;
use attn_core::plan::PlanRule;
use attn_core::spec::{ComputeType, Heads, KernelKind, PrefillBackend};

use super::common::CommonTraits;
use crate::cost::CostKernel;

/// Rows of a warpgroup of sm90 prefill.
pub const WARPGROUP_ROWS: u32 = 64;

/// What the K/V preprocessing kernel writes to the workspace before the main kernel, because a hook transforms it or
/// because it has fewer than 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Preprocessed {
    /// The keys.
    pub keys: bool,
    /// The values.
    pub values: bool,
}

/// What a kernel states of itself. The text of every kernel has all sizes, those that it does not use as in
/// [`Facts::default`].
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The kernel family.
    pub kind: KernelKind,
    /// The CUDA headers of its unit, behind the variant; without K/V preprocessing and the merge.
    pub(crate) headers: &'static [&'static str],
    /// The headers of its namespace as a part of a mixed kernel.
    pub(crate) part_headers: &'static [&'static str],
    /// The row of costs that is measured of it, or of the kernel that is most like it.
    pub(crate) cost: CostKernel,
    /// Rows of a Q tile: tokens times query heads of a KV head (PackGQA).
    pub tile_rows: u32,
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
    /// Stages of the K/V pipeline.
    pub(crate) stages: u32,
    /// Keys of a warp in one pipeline stage, of kernels of workers.
    pub(crate) warp_keys: u32,
    /// CTAs of an SM that registers and shared memory have to suffice for (`__launch_bounds__`).
    pub ctas_per_sm: u32,
    /// Whether the launch is of persistent workers, each of which runs its part of the work list, and merges partial
    /// states: the CTA that decrements the split-KV semaphore last does it. Other kernels run a work item in each CTA,
    /// and need a launch of the merge kernel.
    pub has_workers: bool,
    /// Whether both GEMMs run on CUDA cores, in f32. Otherwise they run on tensor cores.
    pub on_cuda_cores: bool,
    /// What it rounds besides f32.
    pub rounding: RowRounding,
    /// What is preprocessed.
    pub preprocessed: Preprocessed,
    /// Keys of a tile of values, if the preprocessing kernel writes them transposed. The kernel then reads keys and
    /// values of 8 bits in pairs.
    pub(crate) transposed_keys: Option<u32>,
    /// The compute type of WGMMA, for sm90 prefill: warp-specialised (a producer and consumer warpgroups) and
    /// persistent (no more CTAs than the device holds, each of which takes work tiles from a dynamic tile scheduler).
    pub(crate) wgmma: Option<ComputeType>,
    /// Prefill: the backend by which it runs some batches in place of the usual kernel.
    pub special: Option<PrefillBackend>,
    /// Sm90 prefill: whether work items of all KV heads interleave, whatever L2 holds.
    pub(crate) interleaves_all_heads: bool,
}

impl Default for Facts {
    /// Those of sm80 prefill.
    fn default() -> Self {
        Facts {
            kind: KernelKind::Prefill,
            headers: &[],
            part_headers: &[],
            cost: CostKernel::Prefill,
            tile_rows: 128,
            tile_keys: 64,
            warps: 4,
            producer_warps: 0,
            column_warps: 1,
            row_warps: 1,
            stages: 2,
            warp_keys: 16,
            ctas_per_sm: 2,
            has_workers: false,
            on_cuda_cores: false,
            rounding: RowRounding::Elements,
            preprocessed: Preprocessed::default(),
            transposed_keys: None,
            wgmma: None,
            special: None,
            interleaves_all_heads: false,
        }
    }
}

impl Facts {
    /// Keys of one mainloop step. KV splits are best cut at multiples of it.
    pub(crate) fn step_keys(&self) -> u32 {
        if self.has_workers { self.warp_keys * (self.warps / self.row_warps) } else { self.tile_keys }
    }
}

/// A kernel. The methods with a body are of some kernels alone.
pub(crate) trait Kernel {
    /// What it states of itself.
    fn facts(&self) -> Facts;

    /// What tells it from the other kernels of its family in names, each word after a space.
    fn name(&self) -> String;

    /// Dynamic shared memory of a CTA, in bytes (`SMEM_BYTES` in CUDA).
    fn smem_bytes(&self, common: &CommonTraits) -> u32;

    /// Constants that its template alone has.
    fn own_constants(&self, _: &CommonTraits) -> String {
        String::new()
    }

    /// Whether rows of keys and of values of KV formats become MMA operands in registers, and not in shared memory.
    fn decodes_in_registers(&self, _: &CommonTraits) -> [bool; 2] {
        [false; 2]
    }

    /// Sm90 prefill: PackGQA rows that TMA loads at a time if they are whole tokens, and all rows that it loads of Q,
    /// for a group of query heads.
    fn query_rows(&self, _group: u32) -> [u32; 2] {
        [WARPGROUP_ROWS, self.facts().tile_rows]
    }

    /// The rule for one batch without levels, on a device that holds `resident_ctas` CTAs.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))] // plans of the CUDA layer ask
    fn rule_of_batch(&self, rule: PlanRule, _: &Layout, _: Heads, _resident_ctas: u32) -> PlanRule {
        rule
    }

    /// Whether it runs a batch without levels for which its family was selected.
    fn runs(&self, _: &Layout) -> bool {
        true
    }

    /// Whether it was measured to be faster than the kernels behind it in the list, for batches that it `suits`.
    fn is_faster(&self, _: &CommonTraits) -> bool {
        true
    }

    /// Whether a batch that it runs is of those that were measured.
    fn suits(&self, _: &Layout, _: Heads) -> bool {
        true
    }
}
