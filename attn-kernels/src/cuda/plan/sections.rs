//! Where the lists, partial states and preprocessed keys of a plan lie in a workspace.

use std::{ops::Range, sync::Arc};

use attn_core::batch::{BatchCapacity, Layout};
use attn_core::plan::{ListRule, PartialBytes, PlanCapacity, PlanError, PlanOffsets, WorkList};
use attn_core::spec::Heads;

use crate::cuda::alignment::WORKSPACE_ALIGNMENT;
use crate::cuda::{CudaError, Kernel};
use crate::kernel_traits::KernelTraits;
use crate::launch::{PLAN_STATUS_BYTES, PlannerScratch};

/// Byte ranges within the workspace, each aligned to 256.
#[derive(Clone, Debug)]
pub(in crate::cuda) struct Sections {
    pub(in crate::cuda) lists: PlanOffsets,
    pub(in crate::cuda) partial_o: Range<usize>,
    pub(in crate::cuda) partial_md: Range<usize>,
    /// The split-KV semaphores, `[partials of tiles][kv_heads]`; or the two counters of the dynamic tile scheduler; or
    /// nothing.
    pub(in crate::cuda) split_semaphores: Range<usize>,
    /// For a plan that the device may update: the status, and planning memory that exceeds shared memory. Follows
    /// `split_semaphores`.
    pub(super) planning: Range<usize>,
    /// Preprocessed keys of the branch that runs; empty if no branch preprocesses keys.
    pub(in crate::cuda) k_pre: Range<usize>,
    /// Preprocessed values, likewise.
    pub(in crate::cuda) v_pre: Range<usize>,
    pub(super) bytes: usize,
}

/// The sizes of the contents of the sections.
struct Sizes {
    lists: PlanOffsets,
    partial: PartialBytes,
    partial_rows: usize,
    kv_tokens: usize,
    requests: usize,
    planning: usize,
}

impl Sections {
    /// The sections for one batch.
    pub(super) fn of(
        heads: Heads,
        value_dim: u32,
        kernels: &[Arc<Kernel>],
        work: &WorkList,
        layout: &Layout,
    ) -> Result<Self, CudaError> {
        let sizes = Sizes {
            lists: PlanOffsets::of(layout, work),
            partial: PartialBytes::of(work.partial_rows as usize, heads.kv, value_dim)?,
            partial_rows: work.partial_rows as usize,
            kv_tokens: layout.preprocessed_keys() as usize,
            requests: layout.batch(),
            planning: 0,
        };
        Self::sized(heads, kernels, sizes)
    }

    /// The sections for every batch within a capacity.
    pub(super) fn within(
        heads: Heads,
        value_dim: u32,
        kernels: &[Arc<Kernel>],
        counts: &PlanCapacity,
        capacity: &BatchCapacity,
        rule: &ListRule,
    ) -> Result<Self, CudaError> {
        let planning = match rule {
            ListRule::Flat(_) if counts.parts.len() > 1 => 0, // a union
            _ => PLAN_STATUS_BYTES + PlannerScratch::workspace_bytes(counts, rule).iter().sum::<usize>(),
        };
        let sizes = Sizes {
            lists: PlanOffsets::within(counts),
            partial: PartialBytes::of(counts.partial_rows, heads.kv, value_dim)?,
            partial_rows: counts.partial_rows,
            kv_tokens: capacity.kv_tokens as usize,
            requests: capacity.requests as usize,
            planning,
        };
        Self::sized(heads, kernels, sizes)
    }

    fn sized(heads: Heads, kernels: &[Arc<Kernel>], sizes: Sizes) -> Result<Self, CudaError> {
        let Heads { kv, head_dim, .. } = heads;
        let Sizes { lists, partial, partial_rows, kv_tokens, requests, planning } = sizes;
        let largest = |bytes: &dyn Fn(&KernelTraits) -> u64| {
            kernels.iter().map(|kernel| bytes(kernel.traits())).max().unwrap_or(0)
        };
        let (tokens, requests) = (kv_tokens as u64, requests as u64);
        let k_pre = largest(&|traits| {
            let tokens = if traits.facts().preprocessed[0] { tokens } else { 0 };
            tokens * u64::from(kv) * u64::from(head_dim) * 2 // always of 16 bits
        });
        let v_pre = largest(&|traits| traits.preprocessed_value_bytes(tokens, requests, kv));
        let mut end = lists.total as u64;
        let mut section = |bytes: u64| -> Result<Range<usize>, CudaError> {
            let start = end.next_multiple_of(WORKSPACE_ALIGNMENT);
            let too_many = PlanError::TooMany { what: "bytes of workspace", value: bytes };
            end = start.checked_add(bytes).filter(|&end| end < i64::MAX as u64).ok_or(too_many)?;
            Ok(start as usize..end as usize)
        };
        let (partial_o, partial_md) = (section(partial.o)?, section(partial.md)?);
        let counters = |kernel: &Arc<Kernel>| match kernel.traits() {
            traits if traits.facts().has_workers => {
                partial_rows as u64 / u64::from(traits.facts().tile_rows) * u64::from(kv)
            }
            traits if traits.is_sm90_prefill() => 2,
            _ => 0,
        };
        let split_semaphores = section(kernels.iter().map(counters).max().unwrap_or(0) * 4)?;
        let planning = section(planning as u64)?;
        let (k_pre, v_pre) = (section(k_pre)?, section(v_pre)?);
        Ok(Sections { lists, partial_o, partial_md, split_semaphores, planning, k_pre, bytes: v_pre.end, v_pre })
    }

    /// The bytes that have to be 0 before the first run.
    pub(super) fn zeros(&self) -> Range<usize> {
        let status = self.planning.start..self.planning.end.min(self.planning.start + PLAN_STATUS_BYTES);
        if self.split_semaphores.is_empty() { status } else { self.split_semaphores.start..status.end }
    }
}
