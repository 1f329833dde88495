//! The work list of a plan: flat (one kernel family) or mixed (prefill and decode), with its planner rule, its capacity
//! and its offsets in the workspace.

use attn_core::{
    batch::{BatchCapacity, Layout},
    expr::Variant,
    plan::{
        self, MixedBlob, MixedCapacity, MixedList, MixedOffsets, MixedRule, PartialBytes, PlanBlob, PlanCapacity,
        PlanError, PlanOffsets, PlanRule, WorkList,
    },
    spec::Heads,
};

use crate::kernel_traits::KernelTraits;

/// Host memory that planning reuses.
#[derive(Debug, Default)]
pub(super) struct PlanningMemory {
    flat: plan::PlanScratch,
    mixed: plan::MixedScratch,
}

/// The planner's rule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Flat(PlanRule),
    Mixed(MixedRule),
}

/// The work list of a batch.
#[derive(Debug)]
pub(super) enum Work {
    Flat(WorkList),
    Mixed(MixedList),
}

/// The capacity for the work lists of all batches up to a size.
#[derive(Clone, Copy, Debug)]
pub(super) enum ListCapacity {
    Flat(PlanCapacity),
    Mixed(MixedCapacity),
}

/// The offsets of a work list in the workspace.
#[derive(Clone, Debug)]
pub(super) enum Lists {
    Flat(PlanOffsets),
    Mixed(MixedOffsets),
}

/// A work list as it is uploaded.
#[derive(Debug)]
pub(super) enum Blob {
    Flat(PlanBlob),
    Mixed(MixedBlob),
}

/// The grid of a mixed launch: for the batch, or for the capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct MixedGrid {
    /// Decode CTAs per KV head.
    pub(super) workers: u32,
    /// Prefill work items per KV head.
    pub(super) prefill: u32,
    /// Segments of keys.
    pub(super) segments: u32,
    /// Keys of all segments.
    pub(super) preprocess_tokens: u32,
}

impl MixedGrid {
    /// CTAs of the launch.
    pub(super) fn ctas(&self, kv_heads: u32) -> u32 {
        (self.workers + self.prefill) * kv_heads
    }
}

impl Work {
    /// Builds the work list of a batch, for all keys that `variant` or any of `others` sees.
    pub(super) fn build<'a>(
        rule: &Rule,
        variant: &'a Variant,
        others: impl IntoIterator<Item = &'a Variant>,
        layout: &Layout,
        heads: Heads,
    ) -> Result<Self, PlanError> {
        let mut work = match rule {
            Rule::Flat(_) => Work::Flat(WorkList::default()),
            Rule::Mixed(_) => Work::Mixed(MixedList::default()),
        };
        work.rebuild(&mut PlanningMemory::default(), rule, variant, others, layout, heads)?;
        Ok(work)
    }

    /// Rebuilds the work list in place, with a rule of the same kind.
    pub(super) fn rebuild<'a>(
        &mut self,
        scratch: &mut PlanningMemory,
        rule: &Rule,
        variant: &'a Variant,
        others: impl IntoIterator<Item = &'a Variant>,
        layout: &Layout,
        heads: Heads,
    ) -> Result<(), PlanError> {
        match (self, rule) {
            (Work::Flat(work), Rule::Flat(rule)) => {
                work.rebuild_for_all(&mut scratch.flat, variant, others, layout, heads, rule)
            }
            (Work::Mixed(work), Rule::Mixed(rule)) => {
                work.rebuild_for_all(&mut scratch.mixed, variant, others, layout, heads, rule)
            }
            _ => Err(PlanError::NotMixed { what: "work of a flat launch" }),
        }
    }

    /// The numbers of work items and merges.
    pub(super) fn counts(&self) -> (u32, u32) {
        // the planner counts in i32
        match self {
            Work::Flat(work) => (work.items.len() as u32, work.merges.len() as u32),
            Work::Mixed(work) => ((work.decode.len() + work.prefill.len()) as u32, work.merges.len() as u32),
        }
    }

    /// Keys that work items read; in a mixed launch those of the decode part.
    pub(super) fn keys_read(&self) -> u64 {
        let keys = |begin: i32, end: i32| (end - begin).max(0) as u64;
        match self {
            Work::Flat(work) => work.items.iter().map(|item| keys(item.kv_begin, item.kv_end)).sum(),
            Work::Mixed(work) => work.decode.iter().map(|item| keys(item.kv_begin, item.kv_end)).sum(),
        }
    }

    /// Whether work items have about the same length: the longest is at most a quarter longer than the average.
    pub(super) fn is_even(&self) -> bool {
        let Work::Flat(work) = self else { return false };
        let longest = work.items.iter().map(|item| (item.kv_end - item.kv_begin).max(0)).max().unwrap_or(0);
        let all = work.items.len() as u64 * u64::try_from(longest).unwrap_or(0);
        all / 5 * 4 <= self.keys_read()
    }

    pub(super) fn lists(&self, layout: &Layout) -> Lists {
        match self {
            Work::Flat(work) => Lists::Flat(PlanOffsets::of(layout, work)),
            Work::Mixed(work) => Lists::Mixed(MixedOffsets::of(layout, work)),
        }
    }

    pub(super) fn partial_bytes(&self, kv_heads: u32, head_dim: u32) -> Result<PartialBytes, PlanError> {
        match self {
            Work::Flat(work) => work.partial_bytes(kv_heads, head_dim),
            Work::Mixed(work) => work.partial_bytes(kv_heads, head_dim),
        }
    }

    pub(super) fn pack(&self, layout: &Layout) -> Blob {
        match self {
            Work::Flat(work) => Blob::Flat(PlanBlob::pack(layout, work)),
            Work::Mixed(work) => Blob::Mixed(MixedBlob::pack(layout, work)),
        }
    }

    /// The grid of a mixed launch for the work list.
    pub(super) fn mixed(&self, layout: &Layout) -> Option<MixedGrid> {
        let Work::Mixed(work) = self else { return None };
        let segments = if layout.has_levels() { layout.segments().len() } else { layout.batch() };
        // the planner counts in i32
        Some(MixedGrid {
            workers: work.workers.len().saturating_sub(1) as u32,
            prefill: work.prefill.len() as u32,
            segments: segments as u32,
            preprocess_tokens: preprocess_tokens(layout),
        })
    }
}

/// Keys that are preprocessed. Those of a shared prefix count once.
pub(super) fn preprocess_tokens(layout: &Layout) -> u32 {
    let last = layout.segments().last().map(|segment| segment.pass + segment.kv_len);
    if layout.has_levels() { last.unwrap_or(0) as u32 } else { layout.kv_tokens() as u32 }
}

impl ListCapacity {
    pub(super) fn of(
        capacity: &BatchCapacity,
        variant: &Variant,
        heads: Heads,
        rule: &Rule,
    ) -> Result<Self, PlanError> {
        Ok(match rule {
            Rule::Flat(rule) => ListCapacity::Flat(PlanCapacity::of(capacity, variant, heads, rule)?),
            Rule::Mixed(rule) => ListCapacity::Mixed(MixedCapacity::of(capacity, heads, rule)?),
        })
    }

    pub(super) fn merges(&self) -> usize {
        match self {
            ListCapacity::Flat(capacity) => capacity.merges,
            ListCapacity::Mixed(capacity) => capacity.merges,
        }
    }

    pub(super) fn lists(&self) -> Lists {
        match self {
            ListCapacity::Flat(capacity) => Lists::Flat(PlanOffsets::within(capacity)),
            ListCapacity::Mixed(capacity) => Lists::Mixed(MixedOffsets::within(capacity)),
        }
    }

    pub(super) fn partial_bytes(
        &self,
        traits: &KernelTraits,
        kv_heads: u32,
        head_dim: u32,
    ) -> Result<PartialBytes, PlanError> {
        match self {
            ListCapacity::Flat(capacity) => capacity.partial_bytes(traits.tile_rows, kv_heads, head_dim),
            ListCapacity::Mixed(capacity) => capacity.partial_bytes(kv_heads, head_dim),
        }
    }

    /// The grid of a mixed launch for the capacity.
    pub(super) fn mixed(&self, capacity: &BatchCapacity) -> Option<MixedGrid> {
        let ListCapacity::Mixed(list) = self else { return None };
        Some(MixedGrid {
            workers: list.workers as u32,
            prefill: list.prefill as u32,
            segments: list.segments as u32,
            preprocess_tokens: capacity.kv_tokens,
        })
    }
}

impl Lists {
    /// The total size in bytes.
    pub(super) fn total(&self) -> usize {
        match self {
            Lists::Flat(offsets) => offsets.total,
            Lists::Mixed(offsets) => offsets.total,
        }
    }

    /// The offsets of a flat list.
    pub(super) fn flat(&self) -> Option<&PlanOffsets> {
        match self {
            Lists::Flat(offsets) => Some(offsets),
            Lists::Mixed(_) => None,
        }
    }
}

impl Blob {
    /// An empty blob for a work list of this kind.
    pub(super) fn of(work: &Work) -> Self {
        match work {
            Work::Flat(_) => Blob::Flat(PlanBlob::default()),
            Work::Mixed(_) => Blob::Mixed(MixedBlob::default()),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Blob::Flat(blob) => &blob.bytes,
            Blob::Mixed(blob) => &blob.bytes,
        }
    }

    /// Packs a work list for its capacity; blob, capacity and list are of the same kind.
    pub(super) fn repack_within(
        &mut self,
        capacity: &ListCapacity,
        layout: &Layout,
        work: &Work,
    ) -> Result<(), PlanError> {
        match (self, capacity, work) {
            (Blob::Flat(blob), ListCapacity::Flat(capacity), Work::Flat(work)) => {
                blob.repack_within(capacity, layout, work)
            }
            (Blob::Mixed(blob), ListCapacity::Mixed(capacity), Work::Mixed(work)) => {
                blob.repack_within(capacity, layout, work)
            }
            _ => Err(PlanError::NotMixed { what: "work of a flat launch" }),
        }
    }
}
