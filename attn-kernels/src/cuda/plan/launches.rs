//! What the runs of a plan launch.

use std::sync::Arc;

use attn_core::batch::{BatchCapacity, Layout};
use attn_core::plan::{PlanCapacity, WorkList};
use attn_core::spec::KernelKind;

use crate::cuda::Kernel;
use crate::cuda::attention::bound::BoundAttention;
use crate::cuda::attention::kernel_cache::BranchKernels;
use crate::cuda::memory::args::Args;
use crate::launch::HeadOrder;

/// What the runs of a plan launch. With a capacity it is the same for every batch, so that a captured run is too.
#[derive(Debug)]
pub(in crate::cuda) struct Launches {
    /// The launches of the main kernel: one for each branch of a union, else one.
    pub(in crate::cuda) branches: Vec<Branch>,
    /// The order of KV heads; with a capacity that of the first batch.
    pub(in crate::cuda) head_order: HeadOrder,
    /// Requests of the batch, or those that its capacity has room for.
    pub(in crate::cuda) requests: u32,
    /// Merges that are launched: those of the batch, or those of the capacity.
    pub(in crate::cuda) merges: u32,
    /// Keys that are preprocessed: those of the batch, or those of the capacity.
    pub(in crate::cuda) preprocess_tokens: u32,
    /// Whether K/V loads of decode workers use the L2 policy `evict_first`.
    pub(in crate::cuda) read_once: bool,
    /// How far below the running maximum a KV tile is left out, in the exponent of exp2; of kernels that do so.
    pub(in crate::cuda) skip_threshold: f32,
}

/// The launch of the main kernel for one branch of the variant.
#[derive(Debug)]
pub(in crate::cuda) struct Branch {
    pub(in crate::cuda) kernel: Arc<Kernel>,
    pub(super) args: Arc<Args>,
}

impl Launches {
    /// The launches for one batch.
    pub(super) fn of_batch(
        attention: &BoundAttention,
        kernels: BranchKernels,
        args: Vec<Arc<Args>>,
        layout: &Layout,
        work: &WorkList,
    ) -> Self {
        let (levels, queries, keys) = (layout.has_levels(), layout.max_qo_len() as u64, keys_read(work));
        Launches {
            head_order: HeadOrder::of(work, kernels[0].traits(), kernels[0].resident_ctas()),
            read_once: read_once(attention, &kernels[0], levels, queries, keys),
            skip_threshold: skip_threshold(attention),
            branches: branches(kernels, args),
            requests: layout.batch() as u32,
            merges: work.merges.len() as u32, // the planner counts in i32
            preprocess_tokens: layout.preprocessed_keys() as u32,
        }
    }

    /// The launches for every batch within a capacity, of which `work` is the first.
    pub(super) fn within(
        attention: &BoundAttention,
        kernels: BranchKernels,
        args: Vec<Arc<Args>>,
        capacity: &BatchCapacity,
        counts: &PlanCapacity,
        work: &WorkList,
    ) -> Self {
        let (levels, queries, keys) = (capacity.levels > 1, capacity.qo_len.into(), capacity.kv_tokens.into());
        Launches {
            head_order: HeadOrder::of(work, kernels[0].traits(), kernels[0].resident_ctas()),
            read_once: read_once(attention, &kernels[0], levels, queries, keys),
            skip_threshold: skip_threshold(attention),
            branches: branches(kernels, args),
            requests: capacity.requests,
            merges: counts.merges as u32, // the capacity counts in i32
            preprocess_tokens: capacity.kv_tokens,
        }
    }

    /// The kernel; for a union that of the first branch.
    pub(in crate::cuda) fn kernel(&self) -> &Kernel {
        &self.branches[0].kernel // there is at least one branch
    }

    /// The arguments of a branch: the plan's own, or those of a layer.
    pub(in crate::cuda) fn args_of<'a>(&'a self, branch: usize, layer: Option<&'a BoundAttention>) -> &'a Args {
        match layer {
            Some(layer) => &layer.args[branch], // the structure is the same
            None => &self.branches[branch].args,
        }
    }
}

fn branches(kernels: BranchKernels, args: Vec<Arc<Args>>) -> Vec<Branch> {
    kernels.into_iter().zip(args).map(|(kernel, args)| Branch { kernel, args }).collect()
}

/// [`Launches::skip_threshold`] of options.
fn skip_threshold(attention: &BoundAttention) -> f32 {
    attention.skip_softmax.map_or(0.0, |threshold| threshold * std::f32::consts::LOG2_E)
}

/// Whether K/V loads of decode workers use the L2 policy `evict_first`. It needs keys that one CTA alone reads: all
/// rows of a request are one Q tile, and requests share no keys.
///
/// Decode alone also needs few enough bytes that other data could stay in L2. On an H200 the policy saves 4 to 6 us
/// of a run that reads 150 MB; a run that reads 1 GB is 4 % slower with it. In a mixed launch the keys of the
/// prefill part are such data at any size: every tile of a request reads them (up to 3 % of a launch). On CUDA
/// cores that part loads keys as decode does, so the policy would evict them.
///
/// `queries`: the most of a request; `keys`: that work items read, per KV head.
fn read_once(attention: &BoundAttention, kernel: &Kernel, levels: bool, queries: u64, keys: u64) -> bool {
    let traits = kernel.traits();
    if traits.kind() == KernelKind::Mixed {
        return !levels && !traits.facts().on_cuda_cores;
    }
    let rows = queries * u64::from(attention.heads.group());
    let key_bytes = u64::from(
        traits.common.key_bytes() + if attention.head_dim_vo.shares_keys() { 0 } else { traits.common.value_bytes() },
    );
    let bytes = keys.saturating_mul(u64::from(attention.heads.kv) * key_bytes);
    rows <= traits.facts().tile_rows.into() && bytes <= 4 * u64::from(attention.device.l2_bytes())
}

/// Keys that work items read; in a mixed launch those of the decode part.
fn keys_read(work: &WorkList) -> u64 {
    let parts = &work.parts[..if work.is_mixed() { 1 } else { work.parts.len() }];
    let items = parts.iter().flat_map(|part| &work.items[part.items.clone()]);
    items.map(|item| (item.kv_end - item.kv_begin).max(0) as u64).sum()
}
