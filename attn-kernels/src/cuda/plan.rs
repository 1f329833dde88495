//! A plan: a batch, its work, and where both lie in a workspace.

use std::{ops::Range, sync::Arc};

use attn_core::{
    batch::Layout,
    plan::{ArmWork, PlanBlob, PlanError, PlanOffsets, WorkList},
    spec::{Heads, KernelKind},
};

use super::{Attention, CudaError, Kernel, Stream, Workspace, args::Args, workspace::Memory};
use crate::cell::Cell;

/// A batch, ready to run any number of times: every layer, every step with the same lengths.
#[derive(Debug)]
pub struct Plan {
    pub(super) attention: Attention,
    /// One, but for a union.
    pub(super) arms: Vec<Arm>,
    pub(super) layout: Layout,
    pub(super) sections: Sections,
    pub(super) memory: Arc<Memory>,
    pub(super) num_merges: u32,
    generation: u64,
    /// The stream whose order the upload is in; `None`: it has arrived.
    pub(super) stream: Option<usize>,
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
}

/// What a batch's work is, and what runs it.
pub(super) struct Schedule {
    /// One for each arm.
    pub(super) kernels: Vec<Arc<Kernel>>,
    pub(super) work: WorkList,
}

/// Byte ranges within the workspace, each aligned to 256.
#[derive(Clone, Debug)]
pub(super) struct Sections {
    /// The lists; see [`PlanOffsets`] for what is where in them.
    pub(super) lists: PlanOffsets,
    pub(super) partial_o: Range<usize>,
    pub(super) partial_md: Range<usize>,
    /// Counters of the merges, `[merges][kv_heads]`; empty where merging is a launch of its own.
    pub(super) arrivals: Range<usize>,
    /// Rewritten keys of the arm that runs; empty where none rewrites them.
    pub(super) k_pre: Range<usize>,
    /// The same of values.
    pub(super) v_pre: Range<usize>,
    pub(super) bytes: usize,
}

impl Sections {
    pub(super) fn of(heads: Heads, schedule: &Schedule, layout: &Layout) -> Result<Self, CudaError> {
        let Schedule { kernels, work } = schedule;
        let Heads { kv, head_dim, .. } = heads;
        let lists = PlanOffsets::of(layout, work);
        let partial = work.partial_bytes(kv, head_dim)?;
        let rewritten = |by: fn(&Cell) -> bool| {
            let tokens = if kernels.iter().any(|kernel| by(kernel.cell())) { layout.kv_tokens() } else { 0 };
            tokens as u64 * u64::from(kv) * u64::from(head_dim) * 2 // always of 16 bits
        };
        let (k_pre, v_pre) = (rewritten(|cell| cell.key_pre_pass), rewritten(|cell| cell.value_pre_pass));
        let mut end = lists.total as u64;
        let mut section = |bytes: u64| -> Result<Range<usize>, CudaError> {
            let start = end.next_multiple_of(256);
            let too_many = PlanError::TooMany { what: "bytes of workspace", value: bytes };
            end = start.checked_add(bytes).filter(|&end| end < i64::MAX as u64).ok_or(too_many)?;
            Ok(start as usize..end as usize)
        };
        let (partial_o, partial_md) = (section(partial.o)?, section(partial.md)?);
        let within = kernels.len() == 1 && kernels[0].cell().kind == KernelKind::Decode;
        let arrivals = section(if within { work.merges.len() as u64 * u64::from(kv) * 4 } else { 0 })?;
        let (k_pre, v_pre) = (section(k_pre)?, section(v_pre)?);
        Ok(Sections { lists, partial_o, partial_md, arrivals, k_pre, bytes: v_pre.end, v_pre })
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
        let sections = Sections::of(attention.heads(), &schedule, &layout)?;
        let Schedule { kernels, work } = schedule;
        let blob = PlanBlob::pack(&layout, &work);
        let (memory, generation) = workspace.put(stream, &blob.bytes, &sections.arrivals, sections.bytes)?;
        let arms = kernels.into_iter().zip(args).zip(work.arms());
        Ok(Plan {
            attention: attention.clone(),
            arms: arms.map(|((kernel, args), work)| Arm::new(kernel, args, work)).collect(),
            layout,
            sections,
            memory,
            num_merges: work.merges.len() as u32, // counted in i32 by the planner, as items are
            generation,
            stream: stream.map(|stream| stream.as_raw() as usize),
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

    /// The batch.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Work items per KV head, and of them the tiles that are merged from several.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        (self.arms.iter().map(|arm| arm.items.len() as u32).sum(), self.num_merges)
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
