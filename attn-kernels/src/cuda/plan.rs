//! A plan: a batch, its work, and where both lie in a workspace.

use std::{ops::Range, sync::Arc};

use attn_core::{
    batch::{BatchCapacity, Layout},
    plan::{ArmWork, PartialBytes, PlanError, PlanRoom},
    spec::{Heads, KernelKind},
};

use super::{
    Attention, CudaError, Kernel, Stream, Workspace,
    args::Args,
    room::Room,
    work::{Counts, Lists, MixedCounts, Rule, Work, pass_tokens},
    workspace::Memory,
};
use crate::{
    cell::Cell,
    launch::{PLAN_STATUS_BYTES, PlanParams},
};

/// A batch, ready to run any number of times: every layer, every step with the same lengths. Made with a capacity, it can be given
/// other batches ([`Plan::update`]).
///
/// `Send` and `Sync`: threads may run it at once, on one stream, which gets their runs one after the other. Runs of one plan that overlap in time, on two streams, mix their partial states, and take each other's work.
#[derive(Debug)]
pub struct Plan {
    pub(super) attention: Attention,
    /// Attentions with other parameters, which see other keys, that the list is made for too.
    pub(super) layers: Vec<Attention>,
    /// One, but for a union.
    pub(super) arms: Vec<Arm>,
    /// Keys that the work reads, per KV head: of the first batch, for a plan with capacity.
    pub(super) keys_read: u64,
    /// Whether the work is of items about as long as each other: of the first batch, for a plan with capacity.
    pub(super) even: bool,
    pub(super) layout: Layout,
    pub(super) sections: Sections,
    pub(super) memory: Arc<Memory>,
    /// Work items and merges of the batch.
    pub(super) counts: (u32, u32),
    /// Merges that are launched: those of the batch, or all that there is room for.
    pub(super) merges: u32,
    /// Of a mixed launch.
    pub(super) mixed: Option<MixedCounts>,
    pub(super) generation: u64,
    /// The stream whose order the upload is in; `None`: it has arrived.
    pub(super) stream: Option<usize>,
    /// `None`: the plan is of one batch.
    pub(super) room: Option<Box<Room>>,
}

/// One launch of the main kernel.
#[derive(Debug)]
pub(super) struct Arm {
    pub(super) kernel: Arc<Kernel>,
    pub(super) args: Arc<Args>,
    /// Of the list of items.
    pub(super) items: Range<usize>,
    /// Its workers: of the list of workers, the entries at which they begin.
    pub(super) workers: Range<usize>,
}

impl Arm {
    fn new(kernel: Arc<Kernel>, args: Arc<Args>, work: ArmWork) -> Self {
        // the last entry is where the last worker ends
        let workers = work.workers.start..work.workers.end.saturating_sub(1).max(work.workers.start);
        Arm { kernel, args, items: work.items, workers }
    }

    /// Number `arm`, with all of its room.
    fn within(room: &PlanRoom, arm: usize, kernel: Arc<Kernel>, args: Arc<Args>) -> Self {
        let all = |each: usize| arm * each..(arm + 1) * each;
        Arm { kernel, args, items: all(room.items), workers: all(room.workers) }
    }

    /// Of a mixed launch, which has lists of its own.
    fn mixed(kernel: Arc<Kernel>, args: Arc<Args>) -> Self {
        Arm { kernel, args, items: 0..0, workers: 0..0 }
    }
}

/// What a batch's work is, and what runs it.
pub(super) struct Schedule {
    /// One for each arm.
    pub(super) kernels: Vec<Arc<Kernel>>,
    pub(super) rule: Rule,
    pub(super) work: Work,
}

/// Byte ranges within the workspace, each aligned to 256.
#[derive(Clone, Debug)]
pub(super) struct Sections {
    pub(super) lists: Lists,
    pub(super) partial_o: Range<usize>,
    pub(super) partial_md: Range<usize>,
    /// Counters of the merges, `[merges][kv_heads]`; or two that hand out work, where CTAs take it; or none.
    pub(super) arrivals: Range<usize>,
    /// Of a plan that the device may update: a status, and what of planning does not fit shared memory. Behind `arrivals`.
    pub(super) planning: Range<usize>,
    /// Rewritten keys of the arm that runs; empty where none rewrites them.
    pub(super) k_pre: Range<usize>,
    /// The same of values.
    pub(super) v_pre: Range<usize>,
    pub(super) bytes: usize,
}

/// How much there is of what sections hold.
struct Sizes {
    lists: Lists,
    partial: PartialBytes,
    merges: usize,
    kv_tokens: usize,
    planning: usize,
}

impl Sections {
    /// Of one batch.
    pub(super) fn of(
        heads: Heads,
        value_dim: u32,
        kernels: &[Arc<Kernel>],
        work: &Work,
        layout: &Layout,
    ) -> Result<Self, CudaError> {
        let sizes = Sizes {
            lists: work.lists(layout),
            partial: work.partial_bytes(heads.kv, value_dim)?,
            merges: work.counts().1 as usize,
            kv_tokens: pass_tokens(layout) as usize,
            planning: 0,
        };
        Self::sized(heads, value_dim, kernels, sizes)
    }

    /// Of every batch that there is room for.
    pub(super) fn within(
        heads: Heads,
        value_dim: u32,
        kernels: &[Arc<Kernel>],
        room: &Counts,
        capacity: &BatchCapacity,
    ) -> Result<Self, CudaError> {
        let cell = kernels[0].cell(); // there is one arm at least
        let planning = match room {
            Counts::Flat(room) if kernels.len() == 1 && cell.kind == KernelKind::Decode => {
                PlanParams::workspace_bytes(room.items, room.workers)
            }
            _ => 0,
        };
        let sizes = Sizes {
            lists: room.lists(),
            partial: room.partial_bytes(cell, heads.kv, value_dim)?,
            merges: room.merges(),
            kv_tokens: capacity.kv_tokens as usize,
            planning,
        };
        Self::sized(heads, value_dim, kernels, sizes)
    }

    fn sized(heads: Heads, value_dim: u32, kernels: &[Arc<Kernel>], sizes: Sizes) -> Result<Self, CudaError> {
        let Heads { kv, head_dim, .. } = heads;
        let Sizes { lists, partial, merges, kv_tokens, planning } = sizes;
        let rewritten = |dim: u32, by: fn(&Cell) -> bool| {
            let tokens = if kernels.iter().any(|kernel| by(kernel.cell())) { kv_tokens } else { 0 };
            tokens as u64 * u64::from(kv) * u64::from(dim) * 2 // always of 16 bits
        };
        let (k_pre, v_pre) =
            (rewritten(head_dim, |cell| cell.key_pre_pass), rewritten(value_dim, |cell| cell.value_pre_pass));
        let mut end = lists.total() as u64;
        let mut section = |bytes: u64| -> Result<Range<usize>, CudaError> {
            let start = end.next_multiple_of(256);
            let too_many = PlanError::TooMany { what: "bytes of workspace", value: bytes };
            end = start.checked_add(bytes).filter(|&end| end < i64::MAX as u64).ok_or(too_many)?;
            Ok(start as usize..end as usize)
        };
        let (partial_o, partial_md) = (section(partial.o)?, section(partial.md)?);
        let counters = |kernel: &Arc<Kernel>| match kernel.cell() {
            cell if cell.merges_within() => merges as u64 * u64::from(kv),
            cell if cell.in_warpgroups() => 2,
            _ => 0,
        };
        let arrivals = section(kernels.iter().map(counters).max().unwrap_or(0) * 4)?;
        let planning = section(planning as u64)?;
        let (k_pre, v_pre) = (section(k_pre)?, section(v_pre)?);
        Ok(Sections { lists, partial_o, partial_md, arrivals, planning, k_pre, bytes: v_pre.end, v_pre })
    }

    /// What is 0 before the first run.
    fn zeros(&self) -> Range<usize> {
        let status = self.planning.start..self.planning.end.min(self.planning.start + PLAN_STATUS_BYTES);
        if self.arrivals.is_empty() { status } else { self.arrivals.start..status.end }
    }
}

impl Plan {
    pub(super) fn put(
        attention: &Attention,
        stream: Option<&Stream>,
        layout: Layout,
        schedule: Schedule,
        args: Vec<Arc<Args>>,
        workspace: &mut Workspace,
    ) -> Result<Self, CudaError> {
        let Schedule { kernels, work, .. } = schedule;
        let sections = Sections::of(attention.heads(), attention.value_dim(), &kernels, &work, &layout)?;
        let blob = work.pack(&layout);
        let (memory, generation) = workspace.put(stream, blob.bytes(), &sections.zeros(), sections.bytes)?;
        let arms = kernels.into_iter().zip(args);
        let arms = match &work {
            Work::Flat(work) => {
                arms.zip(work.arms()).map(|((kernel, args), work)| Arm::new(kernel, args, work)).collect()
            }
            Work::Mixed(_) => arms.map(|(kernel, args)| Arm::mixed(kernel, args)).collect(),
        };
        let counts = work.counts();
        Ok(Plan {
            attention: attention.clone(),
            layers: Vec::new(),
            keys_read: work.keys_read(),
            even: work.is_even(),
            arms,
            mixed: work.mixed(&layout),
            layout,
            sections,
            memory,
            counts,
            merges: counts.1,
            generation,
            stream: stream.map(|stream| stream.as_raw() as usize),
            room: None,
        })
    }

    /// As `put`, with room for every batch within a capacity. `layout` is.
    pub(super) fn put_within(
        attention: &Attention,
        capacity: &BatchCapacity,
        layout: Layout,
        schedule: Schedule,
        args: Vec<Arc<Args>>,
        workspace: &mut Workspace,
    ) -> Result<Self, CudaError> {
        let Schedule { kernels, rule, work } = schedule;
        let counts = Counts::of(capacity, attention.variant(), attention.heads(), &rule)?;
        let sections = Sections::within(attention.heads(), attention.value_dim(), &kernels, &counts, capacity)?;
        let (keys_read, even, of_batch) = (work.keys_read(), work.is_even(), work.counts());
        let mut room = Room::new(capacity, counts, rule, work)?;
        let (memory, generation) = workspace.put(None, room.pack(&layout)?, &sections.zeros(), sections.bytes)?;
        memory.reserve_updates(sections.lists.total())?; // an update allocates nothing
        let arms = kernels.into_iter().zip(args).enumerate();
        Ok(Plan {
            attention: attention.clone(),
            layers: Vec::new(),
            keys_read,
            even,
            arms: arms
                .map(|(arm, (kernel, args))| match &counts {
                    Counts::Flat(room) => Arm::within(room, arm, kernel, args),
                    Counts::Mixed(_) => Arm::mixed(kernel, args),
                })
                .collect(),
            mixed: counts.mixed(capacity),
            layout,
            sections,
            memory,
            counts: of_batch,
            merges: counts.merges() as u32, // counted in i32 by the room
            generation,
            stream: None,
            room: Some(Box::new(room)),
        })
    }

    /// Whether the workspace still holds this plan.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.memory.generation() == self.generation
    }

    /// The kernel family that runs.
    #[must_use]
    pub fn kind(&self) -> KernelKind {
        self.kernel().cell().kind
    }

    /// The kernel that runs; of a union, that of its first arm.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.arms[0].kernel // there is one arm at least
    }

    /// The batch; after [`Plan::update_on_device`], that of which the host was told last.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Work items per KV head, and of them the tiles that are merged from several.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        self.counts
    }

    /// Copies what hooks stored (`OutTensor`) into the handles of the attention's variant. Waits for everything given to the
    /// device.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn read_outputs(&self) -> Result<(), CudaError> {
        self.arms.iter().try_for_each(|arm| arm.args.fetch())
    }

    /// Bytes of workspace in use.
    #[must_use]
    pub fn workspace_bytes(&self) -> usize {
        self.sections.bytes
    }
}
