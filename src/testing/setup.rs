//! A case made ready to run on an engine: tensors in place, planned, outputs poisoned.

use std::time::Instant;

use crate::batch::BatchCapacity;
use crate::spec::KernelKind;
use crate::{Attention, AttentionOptions, Dtypes, Engine, Error, Plan, Stream, Variant, Workspace};

use super::inputs::Inputs;
use super::keys::{Keys, Other};
use super::place::Place;
use super::tensors::{Tensors, Written};
use super::{Case, Info, TestError};

/// A planned case with everything that a run of it touches.
pub(super) struct Setup {
    // dropped first: the graph launches what the rest keeps alive
    graph: Option<super::place::Replay>,
    pub(super) plan: Plan,
    _workspace: Workspace,
    attention: Attention,
    /// What `attention` was made with, but for the device.
    made_with: (Dtypes, AttentionOptions),
    engine: Engine,
    pub(super) stream: Stream,
    tensors: Tensors,
    pub(super) place: Place,
    /// Median microseconds of planning.
    pub(super) plan_us: f64,
}

impl Setup {
    /// Puts a case in place and plans it `plans` times.
    pub(super) fn new(
        case: &Case,
        variant: &Variant,
        inputs: &Inputs,
        engine: &Engine,
        plans: usize,
    ) -> Result<Self, TestError> {
        let place = Place::of(engine);
        let dtypes = case.dtypes()?;
        let kernel = match case.kernel.as_str() {
            "auto" => None,
            named => Some(named.parse::<KernelKind>()?),
        };
        let &Case { sm_scale, prefill, values, .. } = case;
        let options = AttentionOptions { sm_scale, kernel, prefill, values, ..AttentionOptions::default() };
        let attention = engine.attention_with(variant, case.heads(), dtypes, options)?;
        let stream = engine.stream()?;
        let levels = inputs.levels();
        let batch = inputs.batch(&levels);
        // memory that was just freed is what the workspace most likely gets: a kernel that counts on zeros fails
        place.dirty(attention.workspace_size(&batch)?)?;
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
            tensors: Tensors::put(&place, case, inputs)?,
            place,
            plan_us: times.get(times.len() / 2).copied().unwrap_or(0.0),
        })
    }

    /// Captures the run, so that [`launch`](Self::launch) replays it. Nothing on the CPU.
    pub(super) fn capture(&mut self) -> Result<(), TestError> {
        if self.graph.is_none() {
            let Setup { place, plan, stream, tensors, .. } = &mut *self;
            self.graph = place.capture(stream, || tensors.run(plan, stream))?;
        }
        Ok(())
    }

    /// Gives one run to the stream: launches, or the graph if it was captured.
    pub(super) fn launch(&mut self) -> Result<(), TestError> {
        match &mut self.graph {
            Some(graph) => graph.launch(&self.stream),
            None => Ok(self.tensors.run(&self.plan, &self.stream)?),
        }
    }

    /// Gives one run to a stream of the engine, launch by launch.
    pub(super) fn run_on(&mut self, stream: &Stream) -> Result<(), Error> {
        self.tensors.run(&self.plan, stream)
    }

    /// What runs: kernel family and engine.
    pub(super) fn ran(&self) -> String {
        ran(&self.plan, &self.engine)
    }

    /// Whether what ran multiplies on tensor cores, and so rounds rewritten rows to the element types.
    pub(super) fn rounds_rows(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.plan.as_cuda().is_some();
        #[cfg(not(feature = "cuda"))]
        false
    }

    /// What is known of the main kernel; nothing on the CPU.
    pub(super) fn kernel_info(&self) -> Info {
        #[cfg(feature = "cuda")]
        if let Some(plan) = self.plan.as_cuda() {
            let kernel = plan.kernel();
            let ready = kernel.ready();
            let main = kernel.resources().into_iter().find(|r| r.kernel.ends_with(&plan.kind().to_string()));
            return Info {
                compile_ms: Some(ready.compiled.ms),
                cubin: Some(ready.origin.to_string()),
                regs: main.as_ref().map(|r| r.registers),
                spill_bytes: main.as_ref().map(|r| r.spill_bytes()),
                smem: main.as_ref().map(|r| r.smem + kernel.cell().smem_bytes()),
                ..Info::default()
            };
        }
        Info::default()
    }

    /// What the case's run writes when it was captured (where there are graphs) of a plan of another batch, replayed with that one, and then with
    /// the case's batch in its place. The other batch is a smaller one; for a variant that it does not fit, since its tensors are over
    /// lengths, the same requests in reverse. `None` where tensors have other elements for it, where the batch runs in a smaller tile than its capacity asks
    /// for, which gives other bits, and for a cascade that is run without its levels, since the kernel of a capacity for levels is another.
    pub(super) fn run_updated(&mut self, inputs: &Inputs) -> Result<Option<Written>, TestError> {
        let cascade = matches!(inputs.keys, Keys::Levels(_));
        if cascade && !self.plan.layout().has_levels() {
            return Ok(None);
        }
        let levels = inputs.levels();
        let batch = inputs.batch(&levels);
        let capacity = BatchCapacity::of(&batch.validate().map_err(Error::from)?);
        // a capacity is planned for by its longest request: the kernel family has to be that of the case
        let (dtypes, options) = self.made_with;
        let attention = match (options.kernel, kind(&self.plan)) {
            (None, kernel @ Some(_)) => {
                let (variant, heads) = (self.attention.variant(), self.attention.heads());
                self.engine.attention_with(variant, heads, dtypes, AttentionOptions { kernel, ..options })?
            }
            _ => self.attention.clone(),
        };
        self.place.dirty(attention.workspace_size_with_capacity(&capacity)?)?;
        let mut workspace = self.engine.workspace();
        let mut plan =
            |other: &Other| attention.plan_with_capacity(&other.batch(&other.levels()), &capacity, &mut workspace);
        let mut plan = match plan(&Other::half(inputs)?) {
            Err(Error::Bind(_)) if cascade => return Ok(None),
            Err(Error::Bind(_)) => match plan(&Other::reversed(inputs)?) {
                Err(Error::Bind(_)) => return Ok(None),
                plan => plan?,
            },
            plan => plan?,
        };
        if !same_tile(&plan, &self.plan) {
            return Ok(None);
        }
        let Setup { place, stream, tensors, .. } = &mut *self;
        tensors.poison()?;
        let mut replay = place.capture(stream, || tensors.run(&plan, stream))?;
        let mut run = |plan: &Plan, tensors: &mut Tensors| match &mut replay {
            Some(graph) => graph.launch(stream),
            None => Ok(tensors.run(plan, stream)?),
        };
        run(&plan, tensors)?;
        match plan.update(stream, &batch) {
            #[cfg(feature = "cuda")]
            Err(Error::Cuda(error)) if matches!(*error, crate::cuda::CudaError::CapturedTensors) => return Ok(None),
            updated => updated?,
        }
        stream.synchronize()?;
        tensors.poison()?;
        run(&plan, tensors)?;
        stream.synchronize()?;
        let written = tensors.written()?;
        Ok(Some(written))
    }

    /// Poisons the outputs, runs once, and gives what was written.
    pub(super) fn run_once(&mut self) -> Result<Written, TestError> {
        self.tensors.poison()?;
        self.launch()?;
        self.stream.synchronize()?;
        self.tensors.written()
    }
}

/// What a plan runs: kernel family and engine.
pub(super) fn ran(plan: &Plan, engine: &Engine) -> String {
    match kind(plan) {
        Some(kind) => format!("{kind} on {engine}"),
        None => engine.to_string(),
    }
}

/// The kernel family of a plan on a GPU.
fn kind(plan: &Plan) -> Option<KernelKind> {
    #[cfg(feature = "cuda")]
    return plan.as_cuda().map(attn_kernels::cuda::Plan::kind);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = plan;
        None
    }
}

/// Whether both run tiles of as many rows.
fn same_tile(a: &Plan, b: &Plan) -> bool {
    #[cfg(feature = "cuda")]
    if let (Some(a), Some(b)) = (a.as_cuda(), b.as_cuda()) {
        let tile = |plan: &crate::cuda::Plan| (plan.kernel().cell().tile_rows, plan.kernel().cell().mixed);
        return tile(a) == tile(b);
    }
    let _ = (a, b);
    true
}
