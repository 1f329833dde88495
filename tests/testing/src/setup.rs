//! A case ready to run on an engine: tensors uploaded, planned, outputs poisoned.

use std::time::Instant;

#[cfg(feature = "cuda")]
use attn::Dtype;
use attn::{
    Attention, AttentionOptions, Dtypes, Engine, Error, ErrorKind, Graph, Plan, PlanOptions, Stream, Variant, Workspace,
};
use attn_core::batch::BatchCapacity;
use attn_core::spec::KernelKind;

use super::device_arrays::DeviceArrays;
use super::engine_memory::{dirty, launch};
use super::expected::Rounding;
use super::inputs::Inputs;
use super::keys::Keys;
use super::other_batch::OtherBatch;
use super::tensors::{Tensors, Written};
use super::{Case, Info, TestError};

/// A planned case with everything that a run uses.
pub(super) struct Setup {
    // dropped first: the graph uses the other fields
    graph: Option<Graph>,
    pub(super) plan: Plan,
    _workspace: Workspace,
    attention: Attention,
    /// The arguments that `attention` was made with, besides the engine.
    made_with: (Dtypes, AttentionOptions),
    engine: Engine,
    pub(super) stream: Stream,
    tensors: Tensors,
    /// Median microseconds of planning.
    pub(super) plan_us: f64,
}

impl Setup {
    /// Uploads a case and plans it `plans` times.
    pub(super) fn new(
        case: &Case,
        variant: &Variant,
        inputs: &Inputs,
        engine: &Engine,
        plans: usize,
    ) -> Result<Self, TestError> {
        let (dtypes, options) = (case.dtypes()?, case.attention_options()?);
        let attention = engine.attention_with(variant, case.heads(), dtypes, options)?;
        let stream = engine.stream()?;
        let levels = inputs.levels();
        let batch = inputs.batch(&levels);
        // the workspace most likely reuses memory that was just freed, so a kernel that relies on zeros fails
        dirty(engine, attention.workspace_size(&batch, PlanOptions::default())?)?;
        let mut workspace = engine.workspace();
        let mut plan = attention.plan(&batch, &mut workspace)?; // the first compiles
        let mut times = Vec::with_capacity(plans);
        for _ in 0..plans {
            let started = Instant::now();
            plan = attention.plan(&batch, &mut workspace)?;
            times.push(started.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);

        Ok(Setup {
            graph: None,
            plan,
            _workspace: workspace,
            attention,
            made_with: (dtypes, options),
            engine: engine.clone(),
            stream,
            tensors: Tensors::put(engine, case, inputs)?,
            plan_us: times.get(times.len() / 2).copied().unwrap_or(0.0),
        })
    }

    /// Captures the run, so that [`run_once`](Self::run_once) replays it.
    pub(super) fn capture(&mut self) -> Result<(), TestError> {
        if self.graph.is_none() {
            let Setup { plan, stream, tensors, .. } = &mut *self;
            self.graph = Some(Graph::capture(stream, || tensors.run(plan, stream))?);
        }
        Ok(())
    }

    /// Launches one run on a stream of the engine, without the graph.
    pub(super) fn run_on(&mut self, stream: &Stream) -> Result<(), Error> {
        self.tensors.run(&self.plan, stream)
    }

    /// The kernel and the engine.
    pub(super) fn ran(&self) -> String {
        ran(&self.plan, &self.engine)
    }

    /// What the kernel rounds besides f32; nothing on the CPU.
    pub(super) fn rounding(&self) -> Rounding {
        #[cfg(feature = "cuda")]
        if let Some(kernel) = self.plan.kernel() {
            let (rows, kernel) = (kernel.traits().facts().rounding, Some(kernel.traits().kind()));
            let approximates = self.made_with.0.qo != Dtype::F32;
            return Rounding { rows, kernel, approximates, ..Rounding::default() };
        }
        Rounding::default()
    }

    /// The facts about the main kernel; none on the CPU.
    pub(super) fn kernel_info(&self) -> Info {
        #[cfg(feature = "cuda")]
        if let Some(kernel) = self.plan.kernel() {
            let (ready, kind) = (kernel.ready(), kernel.traits().kind().to_string());
            let (key, code) = keys(&self.plan);
            let main = kernel.resources().into_iter().find(|r| r.kernel.ends_with(&kind));
            return Info {
                key,
                code,
                compile_ms: Some(ready.compiled.ms),
                cubin: Some(ready.origin.to_string()),
                regs: main.as_ref().map(|r| r.registers),
                spill_bytes: main.as_ref().map(|r| r.spill_bytes()),
                smem: main.as_ref().map(|r| r.smem + kernel.traits().smem_bytes()),
                ..Info::default()
            };
        }
        Info::default()
    }

    /// Plans another batch, captures and replays a run of it, updates the plan to the case's batch, and returns the
    /// outputs of a second replay. With `device_plans` the device updates it, where it can; the flag that is returned
    /// says whether it did. The CPU runs the plan instead. The other batch is smaller; for a variant whose
    /// tensors over lengths do not fit a smaller batch, it has the same requests in reverse.
    ///
    /// `None` if the bits may differ: where tensors have other elements for the other batch; where the batch alone uses
    /// a smaller tile than the capacity, or keeps its keys in shared memory; and for a cascade that runs flattened,
    /// because a capacity with levels selects another kernel.
    pub(super) fn run_updated(
        &mut self,
        inputs: &Inputs,
        device_plans: bool,
    ) -> Result<Option<(Written, bool)>, TestError> {
        let cascade = matches!(inputs.keys, Keys::Levels(_));
        if cascade && !self.plan.layout().has_levels() {
            return Ok(None);
        }
        let levels = inputs.levels();
        let batch = inputs.batch(&levels);
        let layout = batch.validate().map_err(Error::from)?;
        let capacity = BatchCapacity::of(&layout);
        // a capacity selects its kernel by its longest request, which must be that of the case
        let (dtypes, options) = self.made_with;
        let attention = match (options.kernel, kind(&self.plan)) {
            (None, kernel @ Some(_)) => {
                let (variant, heads) = (self.attention.variant(), self.attention.heads());
                self.engine.attention_with(variant, heads, dtypes, AttentionOptions { kernel, ..options })?
            }
            _ => self.attention.clone(),
        };
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        dirty(&self.engine, attention.workspace_size(&batch, options)?)?;
        let mut workspace = self.engine.workspace();
        let mut plan = |other: &OtherBatch| attention.plan_with(&other.batch(&other.levels()), &mut workspace, options);
        let mut plan = match plan(&OtherBatch::half(inputs)?) {
            Err(Error::Bind(_)) if cascade => return Ok(None),
            Err(Error::Bind(_)) => match plan(&OtherBatch::reversed(inputs)?) {
                Err(Error::Bind(_)) => return Ok(None),
                plan => plan?,
            },
            plan => plan?,
        };
        if !same_tile(&plan, &self.plan) {
            return Ok(None);
        }
        let arrays =
            device_plans.then(|| DeviceArrays::put(&self.engine, &layout, &inputs.keys)).transpose()?.flatten();
        let of_levels = arrays.as_ref().map(DeviceArrays::levels).unwrap_or_default();
        let Setup { stream, tensors, .. } = &mut *self;
        tensors.poison()?;
        let mut graph = Graph::capture(stream, || tensors.run(&plan, stream))?;
        launch(Some(&mut graph), stream, || tensors.run(&plan, stream))?;
        let on_device = match arrays.as_ref().map(|arrays| plan.update_on_device(stream, &arrays.batch(&of_levels))) {
            Some(Err(error)) if error.kind() == ErrorKind::Unsupported => false,
            Some(updated) => updated.map(|()| true)?,
            None => false,
        };
        match if on_device { Ok(()) } else { plan.update(stream, &batch) } {
            #[cfg(feature = "cuda")]
            Err(Error::Cuda(error)) if matches!(*error, attn::cuda::CudaError::ParameterTensors) => return Ok(None),
            updated => updated?,
        }
        stream.synchronize()?;
        tensors.poison()?;
        launch(Some(&mut graph), stream, || tensors.run(&plan, stream))?;
        stream.synchronize()?;
        Ok(Some((tensors.written()?, on_device)))
    }

    /// Poisons the outputs, runs once, and returns the outputs.
    pub(super) fn run_once(&mut self) -> Result<Written, TestError> {
        let Setup { graph, plan, stream, tensors, .. } = self;
        tensors.poison()?;
        launch(graph.as_mut(), stream, || tensors.run(plan, stream))?;
        stream.synchronize()?;
        tensors.written()
    }
}

/// The kernel of a plan and the engine.
pub(super) fn ran(plan: &Plan, engine: &Engine) -> String {
    match kind(plan) {
        Some(kind) => format!("{kind} on {engine}"),
        None => engine.to_string(),
    }
}

/// The keys of the main kernel, of its source and of its code; none on the CPU.
pub(super) fn keys(plan: &Plan) -> (Option<String>, Option<String>) {
    #[cfg(feature = "cuda")]
    if let Some(kernel) = plan.kernel() {
        let ready = kernel.ready();
        return (Some(ready.source.key().to_string()), ready.compiled.code_key());
    }
    let _ = plan;
    (None, None)
}

/// The kernel of a plan on a GPU.
fn kind(plan: &Plan) -> Option<KernelKind> {
    #[cfg(feature = "cuda")]
    return plan.kernel().map(|kernel| kernel.traits().kind());
    #[cfg(not(feature = "cuda"))]
    {
        let _ = plan;
        None
    }
}

/// Whether both run the same kernel with the same tiles.
fn same_tile(a: &Plan, b: &Plan) -> bool {
    #[cfg(feature = "cuda")]
    if let (Some(a), Some(b)) = (a.kernel(), b.kernel()) {
        let parts =
            [a.traits(), b.traits()].map(|of| [of.facts(), of.decode_part().facts(), of.prefill_part().facts()]);
        return parts[0] == parts[1];
    }
    let _ = (a, b);
    true
}
