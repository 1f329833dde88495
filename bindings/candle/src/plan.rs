//! The plan of a batch over candle's tensors.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use attn::{Batch, BatchCapacity, Workspace};
use candle_core::{Result, Tensor};

use crate::Attention;
use crate::device_level::{DeviceLevel, DeviceTable, LevelNumbers};
use crate::error::{IntoCandle, refuse};

/// Options of [`Attention::plan_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanOptions<'a> {
    /// Memory for every batch up to a capacity, so that the plan can be updated in place.
    pub capacity: Option<BatchCapacity>,
    /// Layers that see other keys, which the plan also runs.
    pub layers: &'a [&'a Attention],
}

/// Options of [`Plan::run_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// Another layer of a model: its parameters and its scale of logits are used.
    pub layer: Option<&'a Attention>,
    /// Writes the state (o, lse) of each row over the keys of this batch, to be merged; it takes `lse`.
    pub partial: bool,
    /// Also returns the log-sum-exp of each row.
    pub lse: bool,
}

/// The outputs of a run.
#[derive(Clone, Debug)]
pub struct Output {
    /// (queries, query heads, value dim), of the type of the queries.
    pub o: Tensor,
    /// (queries, query heads) f32, if asked for.
    pub lse: Option<Tensor>,
}

/// A planned batch, with a workspace of its own. It runs any number of times, on any thread. A CUDA graph that captured
/// runs may be replayed when the plan is gone: what they use stays until
/// [`release_captured`](attn::Plan::release_captured), by [`Plan::inspect`] or by the engine.
#[derive(Debug)]
pub struct Plan {
    pub(crate) state: Arc<State>,
}

/// What runs need of a plan. Outputs that candle tracks for `backward` keep it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) attention: Attention,
    plan: RwLock<attn::Plan>,
    /// The memory of the plan, into which nothing else is planned.
    _workspace: Workspace,
}

impl State {
    pub(crate) fn plan(&self) -> RwLockReadGuard<'_, attn::Plan> {
        self.plan.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attention {
    /// Plans a batch. On CUDA this compiles the kernel, unless it is in the cache. The plan has a workspace of its own.
    ///
    /// # Errors
    ///
    /// An invalid batch, or a parameter that does not fit its lengths. On CUDA also neither a kernel nor a compiler, or
    /// out of memory.
    pub fn plan(&self, batch: &Batch<'_>) -> Result<Plan> {
        self.plan_with(batch, PlanOptions::default())
    }

    /// Plans a batch with memory for every batch up to a capacity, so that the plan can be updated in place.
    ///
    /// # Errors
    ///
    /// A batch past the capacity; the errors of [`Attention::plan`].
    pub fn plan_within(&self, batch: &Batch<'_>, capacity: BatchCapacity) -> Result<Plan> {
        self.plan_with(batch, PlanOptions { capacity: Some(capacity), ..PlanOptions::default() })
    }

    /// Plans a batch with options.
    ///
    /// # Errors
    ///
    /// A batch past the capacity; a layer that cannot share the plan; the errors of [`Attention::plan`].
    pub fn plan_with(&self, batch: &Batch<'_>, options: PlanOptions<'_>) -> Result<Plan> {
        let PlanOptions { capacity, layers } = options;
        let engine = &self.engine;
        let layers: Vec<&attn::Attention> = layers.iter().map(|layer| &layer.inner).collect();
        let options = attn::PlanOptions { capacity, layers: &layers, stream: Some(engine.stream()) };
        let mut workspace = engine.inner().workspace();
        let plan = self.inner.plan_with(batch, &mut workspace, options).candle()?;
        let state = State { attention: self.clone(), plan: RwLock::new(plan), _workspace: workspace };
        Ok(Plan { state: Arc::new(state) })
    }
}

impl Plan {
    /// Updates a plan that has a capacity to another batch: later runs compute it. The host reads the arrays now; the
    /// device gets the new work list in the order of the stream.
    ///
    /// # Errors
    ///
    /// An invalid batch, or one past the capacity; a plan without capacity. Nothing changes then.
    pub fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        let state = &*self.state;
        let mut plan = state.plan.write().unwrap_or_else(PoisonError::into_inner);
        plan.update(state.attention.engine.stream(), batch).candle()
    }

    /// Updates from tensors on the device, which kernels of candle may write: the host waits for nothing and learns no
    /// length. `qo_indptr` has requests + 1 entries, `kv_lens` as many as requests; all are contiguous, of u32 or i32.
    /// `pages` is `None` where keys are ragged. Under a capture, replays read the tensors again: they then have to live
    /// as long as the graph.
    ///
    /// On CUDA a batch that is not sound, or past the capacity, makes runs write nothing; [`Plan::device_status`] tells
    /// why.
    ///
    /// # Errors
    ///
    /// A plan without capacity; tensors of contradicting lengths or of other types; on CUDA an attention whose plans
    /// only the host can update.
    pub fn update_on_device(
        &mut self,
        qo_indptr: &Tensor,
        kv_lens: &Tensor,
        pages: Option<DeviceTable<'_>>,
    ) -> Result<()> {
        self.update_levels_on_device(&[DeviceLevel { qo_indptr, kv_lens, pages }])
    }

    /// As [`Plan::update_on_device`], of a cascade: levels of keys that groups of requests share, from the outermost,
    /// which most requests share, and last the requests with their own keys. The device runs the levels as they are.
    /// The plan has a capacity in as many levels ([`BatchCapacity::in_levels`]).
    ///
    /// # Errors
    ///
    /// As [`Plan::update_on_device`]; no level; another number of levels than the capacity has.
    pub fn update_levels_on_device(&mut self, levels: &[DeviceLevel<'_>]) -> Result<()> {
        let state = &*self.state;
        let engine = &state.attention.engine;
        let ints: Vec<_> = levels.iter().map(|level| LevelNumbers::new(level, engine)).collect::<Result<_>>()?;
        let stream = engine.cuda_stream();
        let slices: Vec<_> = ints.iter().map(|level| level.slices(stream)).collect::<Result<_>>()?;
        let batches: Vec<_> = slices.iter().map(LevelNumbers::batch).collect();
        let Some((own, shared)) = batches.split_last() else {
            return refuse("`levels` is empty; the last level has the requests");
        };
        let batch = own.with_levels(shared);
        let mut plan = state.plan.write().unwrap_or_else(PoisonError::into_inner);
        engine.launch(|stream| plan.update_on_device(stream, &batch).candle())
    }

    /// Prepares [`Plan::update_on_device`], so that the first can be captured.
    ///
    /// # Errors
    ///
    /// A plan without capacity, or one that only the host can update; neither a kernel nor a compiler.
    pub fn prepare_device_updates(&mut self) -> Result<()> {
        self.state.plan.write().unwrap_or_else(PoisonError::into_inner).prepare_device_updates().candle()
    }

    /// The error of the batch that the device planned last, if any. Waits for the device.
    ///
    /// # Errors
    ///
    /// That error; a plan without capacity.
    pub fn device_status(&self) -> Result<()> {
        self.state.plan().device_status(self.state.attention.engine.stream()).candle()
    }

    /// Calls `with` with the plan of attn-rs.
    pub fn inspect<T>(&self, with: impl FnOnce(&attn::Plan) -> T) -> T {
        with(&self.state.plan())
    }

    /// The attention.
    #[must_use]
    pub fn attention(&self) -> &Attention {
        &self.state.attention
    }
}
