//! A case made ready to run on an engine: tensors in place, planned, outputs poisoned.

use std::time::Instant;

use crate::spec::KernelKind;
use crate::tensor::{Kv, Out, TensorMut, TensorRef};
use crate::{Attention, AttentionOptions, Dtype, Engine, Error, Plan, Stream, Variant, Workspace};

use super::inputs::{Host, Inputs, Keys};
use super::place::{Held, Place};
use super::{Case, Info, TestError};

/// Elements behind the end of an output that must stay as they are.
const GUARD: usize = 256;
/// What outputs hold before a run: NaN, also in f32.
const POISON: u8 = 0xff;

/// A planned case with everything that a run of it touches.
pub(super) struct Setup {
    // dropped first: the graph launches what the rest keeps alive
    graph: Option<super::place::Replay>,
    pub(super) plan: Plan,
    _workspace: Workspace,
    _attention: Attention,
    pub(super) stream: Stream,
    q: Held,
    k: Held,
    v: Held,
    o: Held,
    lse: Held,
    qo_shape: [usize; 3],
    kv_shape: Vec<usize>,
    kv_strides: Vec<i64>,
    paged: bool,
    pub(super) place: Place,
    /// Median microseconds of planning.
    pub(super) plan_us: f64,
    engine: String,
}

/// What a run wrote.
pub(super) struct Written {
    /// The output and its log-sum-exp, as bits, guards cut off.
    pub(super) o: Host,
    /// One a (token, head).
    pub(super) lse: Vec<f32>,
    /// Whether the guard behind either was touched.
    pub(super) outside: bool,
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
        let options = AttentionOptions { sm_scale: case.sm_scale, kernel, ..AttentionOptions::default() };
        let attention = engine.attention_with(variant, case.heads(), dtypes, options)?;
        let stream = engine.stream()?;
        let batch = inputs.batch();
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

        let qo_shape = inputs.qo_shape();
        let rows = qo_shape[0] * qo_shape[1];
        Ok(Setup {
            graph: None,
            plan,
            _workspace: workspace,
            _attention: attention,
            stream,
            q: place.put(&inputs.q)?,
            k: place.put(&inputs.k)?,
            v: place.put(&inputs.v)?,
            o: place.put(&Host::nan(dtypes.qo, rows * qo_shape[2] + GUARD))?,
            lse: place.put(&Host::nan(Dtype::F32, rows + GUARD))?,
            qo_shape,
            kv_shape: inputs.kv_shape.clone(),
            kv_strides: inputs.kv_strides.clone(),
            paged: matches!(inputs.keys, Keys::Paged(_)),
            place,
            plan_us: times.get(times.len() / 2).copied().unwrap_or(0.0),
            engine: engine.to_string(),
        })
    }

    /// Captures the run, so that [`launch`](Self::launch) replays it. Nothing on the CPU.
    pub(super) fn capture(&mut self) -> Result<(), TestError> {
        if self.graph.is_none() {
            let Setup { place, plan, stream, q, k, v, o, lse, qo_shape, kv_shape, kv_strides, paged, .. } = &mut *self;
            let layout = (*qo_shape, &kv_shape[..], &kv_strides[..], *paged);
            let graph = place.capture(stream, || run(plan, stream, [q, k, v], [o, lse], layout))?;
            self.graph = graph;
        }
        Ok(())
    }

    /// Gives one run to the stream: launches, or the graph if it was captured.
    pub(super) fn launch(&mut self) -> Result<(), TestError> {
        let Setup { graph, plan, stream, q, k, v, o, lse, qo_shape, kv_shape, kv_strides, paged, .. } = &mut *self;
        match graph {
            Some(graph) => graph.launch(stream),
            None => Ok(run(plan, stream, [q, k, v], [o, lse], (*qo_shape, kv_shape, kv_strides, *paged))?),
        }
    }

    /// Median milliseconds of `reps` runs after `warm` that do not count; see [`Place::time`].
    pub(super) fn time(&mut self, warm: usize, reps: usize) -> Result<f64, TestError> {
        for _ in 0..warm {
            self.launch()?;
        }
        self.stream.synchronize()?;
        let mut clock = self.place.clock()?;
        let mut ms = Vec::with_capacity(reps);
        for _ in 0..reps.max(1) {
            clock.start(&self.stream)?;
            self.launch()?;
            ms.push(clock.stop(&self.stream)?);
        }
        ms.sort_by(f64::total_cmp);
        Ok(ms[ms.len() / 2])
    }

    /// What runs: kernel family and engine.
    pub(super) fn ran(&self) -> String {
        #[cfg(feature = "cuda")]
        if let Some(plan) = self.plan.as_cuda() {
            return format!("{} on {}", plan.kind(), self.engine);
        }
        self.engine.clone()
    }

    /// Whether what ran multiplies on tensor cores, and so rounds rewritten rows to the element types.
    pub(super) fn rounds_rows(&self) -> bool {
        #[cfg(feature = "cuda")]
        if let Some(plan) = self.plan.as_cuda() {
            return plan.kernel().cell().kind == KernelKind::Prefill;
        }
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

    /// Poisons the outputs, runs once, and gives what was written.
    pub(super) fn run_once(&mut self) -> Result<Written, TestError> {
        self.o.fill(POISON)?;
        self.lse.fill(POISON)?;
        self.launch()?;
        self.stream.synchronize()?;
        let (o, o_outside) = cut(self.o.get()?);
        let (lse, lse_outside) = cut(self.lse.get()?);
        Ok(Written { o, lse: lse.to_f32(), outside: o_outside || lse_outside })
    }
}

/// The elements without the guard, and whether the guard was touched.
fn cut(mut host: Host) -> (Host, bool) {
    let keep = host.len() - GUARD;
    let touched = host.bytes()[keep * host.dtype().size()..].iter().any(|&byte| byte != POISON);
    host.truncate(keep);
    (host, touched)
}

type Layout<'a> = ([usize; 3], &'a [usize], &'a [i64], bool);

fn run(
    plan: &Plan,
    stream: &Stream,
    [q, k, v]: [&Held; 3],
    [o, lse]: [&mut Held; 2],
    (qo_shape, kv_shape, kv_strides, paged): Layout<'_>,
) -> Result<(), Error> {
    let contiguous = [(qo_shape[1] * qo_shape[2]) as i64, qo_shape[2] as i64, 1];
    let q: TensorRef<'_> = q.tensor(&qo_shape, &contiguous)?;
    let (k, v) = (k.tensor(kv_shape, kv_strides)?, v.tensor(kv_shape, kv_strides)?);
    let kv = if paged { Kv::paged(k, v) } else { Kv::ragged(k, v) };
    let o: TensorMut<'_> = o.tensor_mut(&qo_shape, &contiguous)?;
    let lse = lse.tensor_mut(&qo_shape[..2], &[qo_shape[1] as i64, 1])?;
    plan.run(stream, q, kv, Out::with_lse(o, lse))
}
