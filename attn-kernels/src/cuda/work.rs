//! The work of a plan, how it was cut, and where it lies: a flat list, or a mixed one.

use attn_core::{
    batch::{BatchCapacity, Layout},
    expr::Variant,
    plan::{
        self, MixedBlob, MixedList, MixedOffsets, MixedRoom, MixedRule, PartialBytes, PlanBlob, PlanError, PlanOffsets,
        PlanRoom, PlanRule, WorkList,
    },
    spec::Heads,
};

use crate::cell::Cell;

/// Memory that planning takes.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    flat: plan::Scratch,
    mixed: plan::MixedScratch,
}

/// How a batch is cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Flat(PlanRule),
    Mixed(MixedRule),
}

/// What a batch was cut into.
#[derive(Debug)]
pub(super) enum Work {
    Flat(WorkList),
    Mixed(MixedList),
}

/// Room for the work of every batch up to some size.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counts {
    Flat(PlanRoom),
    Mixed(MixedRoom),
}

/// Where work lies in a workspace.
#[derive(Clone, Debug)]
pub(super) enum Lists {
    Flat(PlanOffsets),
    Mixed(MixedOffsets),
}

/// Work as it is uploaded.
#[derive(Debug)]
pub(super) enum Blob {
    Flat(PlanBlob),
    Mixed(MixedBlob),
}

/// What a mixed launch is launched for: the batch's, or all that there is room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct MixedCounts {
    /// Workers of the decode part.
    pub(super) workers: u32,
    /// Items of the prefill part.
    pub(super) prefill: u32,
    /// Segments of keys.
    pub(super) segments: u32,
    /// Keys of all segments.
    pub(super) pass_tokens: u32,
}

impl MixedCounts {
    /// CTAs of the launch.
    pub(super) fn ctas(&self, kv_heads: u32) -> u32 {
        (self.workers + self.prefill) * kv_heads
    }
}

impl Work {
    /// Cuts a batch, for what a variant sees, and others of the same structure.
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
        work.rebuild(&mut Scratch::default(), rule, variant, others, layout, heads)?;
        Ok(work)
    }

    /// The same, into the memory of this work, which is of such a rule.
    pub(super) fn rebuild<'a>(
        &mut self,
        scratch: &mut Scratch,
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

    /// Items, and merges.
    pub(super) fn counts(&self) -> (u32, u32) {
        // counted in i32 by the planner
        match self {
            Work::Flat(work) => (work.items.len() as u32, work.merges.len() as u32),
            Work::Mixed(work) => ((work.decode.len() + work.prefill.len()) as u32, work.merges.len() as u32),
        }
    }

    /// Keys that items read, but for those of prefill's in a mixed launch.
    pub(super) fn keys_read(&self) -> u64 {
        let keys = |begin: i32, end: i32| (end - begin).max(0) as u64;
        match self {
            Work::Flat(work) => work.items.iter().map(|item| keys(item.kv_begin, item.kv_end)).sum(),
            Work::Mixed(work) => work.decode.iter().map(|item| keys(item.kv_begin, item.kv_end)).sum(),
        }
    }

    /// Whether items are about as long as each other: the longest is not a quarter longer than all are on average.
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

    /// What a mixed launch of it is launched for.
    pub(super) fn mixed(&self, layout: &Layout) -> Option<MixedCounts> {
        let Work::Mixed(work) = self else { return None };
        let segments = if layout.has_levels() { layout.segments().len() } else { layout.batch() };
        // counted in i32 by the planner
        Some(MixedCounts {
            workers: work.workers.len().saturating_sub(1) as u32,
            prefill: work.prefill.len() as u32,
            segments: segments as u32,
            pass_tokens: pass_tokens(layout),
        })
    }
}

/// Keys that a pass over them rewrites: those that requests share, once.
pub(super) fn pass_tokens(layout: &Layout) -> u32 {
    let last = layout.segments().last().map(|segment| segment.pass + segment.kv_len);
    if layout.has_levels() { last.unwrap_or(0) as u32 } else { layout.kv_tokens() as u32 }
}

impl Counts {
    pub(super) fn of(
        capacity: &BatchCapacity,
        variant: &Variant,
        heads: Heads,
        rule: &Rule,
    ) -> Result<Self, PlanError> {
        Ok(match rule {
            Rule::Flat(rule) => Counts::Flat(PlanRoom::of(capacity, variant, heads, rule)?),
            Rule::Mixed(rule) => Counts::Mixed(MixedRoom::of(capacity, heads, rule)?),
        })
    }

    pub(super) fn merges(&self) -> usize {
        match self {
            Counts::Flat(room) => room.merges,
            Counts::Mixed(room) => room.merges,
        }
    }

    pub(super) fn lists(&self) -> Lists {
        match self {
            Counts::Flat(room) => Lists::Flat(PlanOffsets::within(room)),
            Counts::Mixed(room) => Lists::Mixed(MixedOffsets::within(room)),
        }
    }

    pub(super) fn partial_bytes(&self, cell: &Cell, kv_heads: u32, head_dim: u32) -> Result<PartialBytes, PlanError> {
        match self {
            Counts::Flat(room) => room.partial_bytes(cell.tile_rows, kv_heads, head_dim),
            Counts::Mixed(room) => room.partial_bytes(kv_heads, head_dim),
        }
    }

    /// What a mixed launch within it is launched for.
    pub(super) fn mixed(&self, capacity: &BatchCapacity) -> Option<MixedCounts> {
        let Counts::Mixed(room) = self else { return None };
        Some(MixedCounts {
            workers: room.workers as u32,
            prefill: room.prefill as u32,
            segments: room.segments as u32,
            pass_tokens: capacity.kv_tokens,
        })
    }
}

impl Lists {
    /// Bytes in all.
    pub(super) fn total(&self) -> usize {
        match self {
            Lists::Flat(offsets) => offsets.total,
            Lists::Mixed(offsets) => offsets.total,
        }
    }

    /// Those of a flat list.
    pub(super) fn flat(&self) -> Option<&PlanOffsets> {
        match self {
            Lists::Flat(offsets) => Some(offsets),
            Lists::Mixed(_) => None,
        }
    }
}

impl Blob {
    /// One that is empty, for such work.
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

    /// Packs work into the room for it, all three of a kind.
    pub(super) fn repack_within(&mut self, room: &Counts, layout: &Layout, work: &Work) -> Result<(), PlanError> {
        match (self, room, work) {
            (Blob::Flat(blob), Counts::Flat(room), Work::Flat(work)) => blob.repack_within(room, layout, work),
            (Blob::Mixed(blob), Counts::Mixed(room), Work::Mixed(work)) => blob.repack_within(room, layout, work),
            _ => Err(PlanError::NotMixed { what: "work of a flat launch" }),
        }
    }
}
