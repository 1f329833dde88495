//! The `Plan` of Python: a batch with its attention and workspace, over DLPack tensors.

use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use attn::{KvScales, Out, PlanOptions, RunOptions, Workspace};
use pyo3::{prelude::*, types::PyList};

use crate::argument::{ATTENTION, Arg, BATCH, DEVICE_BATCH, Flag, TEXT, optional};
use crate::attention::Attention;
use crate::batch::{Batch, Capacity};
use crate::device_batch::DeviceBatch;
use crate::engine::{address, stream};
use crate::error::{Failure, call};
use crate::kv_layout::KvLayout;
use crate::location::Location;
use crate::parallel::DecodeContextParallel;
use crate::producer::view;
use crate::scale::GivenScale;
use crate::tensor::{View, check_apart};

/// A planned batch, with the memory of its work list and partial states. It can run any number of times.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct Plan {
    plan: RwLock<attn::Plan>,
    layout: KvLayout,
    /// Whether keys are in pages.
    paged: bool,
    engine: attn::Engine,
    location: Location,
    /// Beside the plan, which needs it.
    workspace: RwLock<Option<Workspace>>,
}

#[pymethods]
impl Plan {
    /// Plans a batch. `reuse` is a plan that is not needed any more: its workspace becomes that of this one.
    #[new]
    #[pyo3(signature = (attention, batch, kv_layout, capacity=None, layers=None, reuse=None, stream=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // Python's keywords
    fn new(
        py: Python<'_>,
        attention: Arg<PyRef<'_, Attention>>,
        batch: Arg<PyRef<'_, Batch>>,
        kv_layout: Arg<&str>,
        capacity: Option<Arg<PyRef<'_, Capacity>>>,
        layers: Option<Arg<Bound<'_, PyList>>>,
        reuse: Option<Arg<PyRef<'_, Plan>>>,
        stream: Option<Arg<usize>>,
    ) -> PyResult<Self> {
        call(py, || {
            let layout = KvLayout::parse(kv_layout.get(py, "kv_layout", TEXT)?)?;
            let (attention, batch) = (attention.get(py, "attention", ATTENTION)?, batch.get(py, "batch", BATCH)?);
            let (attention, batch) = (&*attention, &*batch);
            let capacity = optional(capacity, py, "capacity", "a `Capacity`")?;
            let reuse = optional(reuse, py, "reuse", "a `Plan`")?;
            let reuse = reuse.as_deref();
            let of_layers = "a list of `Attention`s: `plan.layer(..)`";
            let layers = optional(layers, py, "layers", of_layers)?;
            let mut given: Vec<PyRef<'_, Attention>> = Vec::new();
            for layer in layers.iter().flatten() {
                given.push(layer.extract::<Arg<_>>()?.get(py, "layers", of_layers)?);
            }
            let layers = given;
            let (engine, location) = (attention.engine.clone(), attention.location);
            let stream = self::stream(py, &engine, location, stream)?;
            let layers: Vec<&attn::Attention> = layers.iter().map(|layer| &layer.attention).collect();
            let capacity = capacity.map(|capacity| capacity.0);
            let reused = reuse.filter(|reuse| reuse.location == location);
            py.detach(|| {
                let reused = reused.and_then(|plan| write(&plan.workspace).take());
                let mut workspace = reused.unwrap_or_else(|| engine.workspace());
                let options = PlanOptions { capacity, layers: &layers, stream: Some(&stream) };
                let plan = batch.with_batch(|batch| attention.attention.plan_with(batch, &mut workspace, options))?;
                let (paged, workspace) = (plan.layout().pages().is_some(), RwLock::new(Some(workspace)));
                Ok(Plan { plan: RwLock::new(plan), layout, paged, engine, location, workspace })
            })
        })
    }

    /// Updates the plan to another batch within its capacity.
    #[pyo3(signature = (batch, stream=None))]
    fn update(&self, py: Python<'_>, batch: Arg<PyRef<'_, Batch>>, stream: Option<Arg<usize>>) -> PyResult<()> {
        call(py, || {
            let batch = batch.get(py, "batch", BATCH)?;
            let batch = &*batch;
            let stream = self::stream(py, &self.engine, self.location, stream)?;
            Ok(py.detach(|| batch.with_batch(|batch| write(&self.plan).update(&stream, batch)))?)
        })
    }

    /// Updates the plan on the device, in the order of the stream, to a batch within its capacity. The host does not
    /// read it.
    #[pyo3(signature = (batch, stream=None))]
    fn update_on_device(
        &self,
        py: Python<'_>,
        batch: Arg<PyRef<'_, DeviceBatch>>,
        stream: Option<Arg<usize>>,
    ) -> PyResult<()> {
        call(py, || {
            let batch = batch.get(py, "batch", DEVICE_BATCH)?;
            let stream = self::stream(py, &self.engine, self.location, stream)?;
            batch.with_batch(py, self.location, address(&stream), |batch| {
                Ok(py.detach(|| write(&self.plan).update_on_device(&stream, batch))?)
            })
        })
    }

    /// Compiles and loads what `update_on_device` launches, so that the first can be captured.
    fn prepare_device_updates(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || Ok(py.detach(|| write(&self.plan).prepare_device_updates())?))
    }

    /// Raises the error of the batch that the device planned last, if any. Waits for the device.
    #[pyo3(signature = (stream=None))]
    fn device_status(&self, py: Python<'_>, stream: Option<Arg<usize>>) -> PyResult<()> {
        call(py, || {
            let stream = self::stream(py, &self.engine, self.location, stream)?;
            Ok(py.detach(|| self.plan.read().unwrap_or_else(PoisonError::into_inner).device_status(&stream))?)
        })
    }

    /// Runs the attention into `o` and, if it is given, `lse`, which with `lse_base_2` another launch converts. With
    /// `parallel` the states of all ranks are merged.
    #[allow(clippy::too_many_arguments)] // Python's keywords
    #[pyo3(signature = (q, k, v, o, lse=None, layer=None, partial=None, k_scale=None, v_scale=None, stream=None,
        k_side=None, v_side=None, lse_base_2=None, o_scale=None, q_scale=None, parallel=None))]
    fn run(
        &self,
        py: Python<'_>,
        q: &Bound<'_, PyAny>,
        k: &Bound<'_, PyAny>,
        v: Option<&Bound<'_, PyAny>>,
        o: &Bound<'_, PyAny>,
        lse: Option<&Bound<'_, PyAny>>,
        layer: Option<Arg<PyRef<'_, Attention>>>,
        partial: Option<Flag>,
        k_scale: Option<&Bound<'_, PyAny>>,
        v_scale: Option<&Bound<'_, PyAny>>,
        stream: Option<Arg<usize>>,
        k_side: Option<&Bound<'_, PyAny>>,
        v_side: Option<&Bound<'_, PyAny>>,
        lse_base_2: Option<Flag>,
        o_scale: Option<&Bound<'_, PyAny>>,
        q_scale: Option<&Bound<'_, PyAny>>,
        parallel: Option<Arg<PyRef<'_, DecodeContextParallel>>>,
    ) -> PyResult<()> {
        call(py, || {
            let parallel = optional(parallel, py, "parallel", "a `DecodeContextParallel`")?;
            let parallel = parallel.as_deref();
            let layer = optional(layer, py, "layer", ATTENTION)?;
            let layer = layer.as_deref();
            let partial = partial.map_or(Ok(false), |partial| partial.get(py, "partial"))?;
            let options = RunOptions { layer: layer.map(|layer| &layer.attention), partial };
            let lse_base_2 = lse_base_2.map_or(Ok(false), |base| base.get(py, "lse_base_2"))?;
            let others = [v, lse, k_side, v_side, k_scale, v_scale, o_scale, q_scale];
            self.with_tensors(py, [q, k, o], others, lse_base_2, stream, parallel, |run| {
                py.detach(|| run(options).map_err(Failure::from))
            })
        })
    }

    /// Runs `count` times from Rust, and returns the nanoseconds that each call took: what a run costs without Python.
    fn time_runs(
        &self,
        py: Python<'_>,
        q: &Bound<'_, PyAny>,
        k: &Bound<'_, PyAny>,
        v: Option<&Bound<'_, PyAny>>,
        o: &Bound<'_, PyAny>,
        count: usize,
    ) -> PyResult<Vec<u64>> {
        call(py, || {
            self.with_tensors(py, [q, k, o], [v, None, None, None, None, None, None, None], false, None, None, |run| {
                let timed = |_| {
                    let start = Instant::now();
                    run(RunOptions::default())?;
                    Ok(start.elapsed().as_nanos() as u64)
                };
                py.detach(|| (0..count).map(timed).collect())
            })
        })
    }

    /// Queries of the batch.
    #[getter]
    fn qo_tokens(&self, py: Python<'_>) -> usize {
        py.detach(|| self.plan.read().unwrap_or_else(PoisonError::into_inner).layout().qo_tokens())
    }

    /// Lets go of the memory and kernels that captured runs use; the graphs must not be replayed any more.
    fn release_captured(&self, py: Python<'_>) {
        py.detach(|| self.plan.read().unwrap_or_else(PoisonError::into_inner).release_captured());
    }

    /// Whether the plan has a capacity, so that tensors may have more tokens than its batch.
    #[getter]
    fn has_capacity(&self, py: Python<'_>) -> bool {
        py.detach(|| self.plan.read().unwrap_or_else(PoisonError::into_inner).capacity().is_some())
    }

    /// Bytes of device memory of the plan; 0 on the CPU.
    #[getter]
    fn workspace_bytes(&self, py: Python<'_>) -> usize {
        py.detach(|| self.plan.read().unwrap_or_else(PoisonError::into_inner).workspace_bytes())
    }

    /// Where keys and values of a page lie.
    #[getter]
    fn has_values(&self) -> bool {
        self.layout.has_values()
    }
}

impl Plan {
    /// Calls `with` with the plan.
    pub(crate) fn with<T>(&self, with: impl FnOnce(&attn::Plan) -> Result<T, Failure>) -> Result<T, Failure> {
        with(&self.plan.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls `with` with a function that runs the plan on the caller's tensors: `q`, `k` and `o`, and maybe `v`, `lse`,
    /// side data and scales.
    #[allow(clippy::too_many_arguments)] // those of a run
    fn with_tensors<T>(
        &self,
        py: Python<'_>,
        [q, k, o]: [&Bound<'_, PyAny>; 3],
        [v, lse, k_side, v_side, k_scale, v_scale, o_scale, q_scale]: [Option<&Bound<'_, PyAny>>; 8],
        lse_base_2: bool,
        stream: Option<Arg<usize>>,
        parallel: Option<&DecodeContextParallel>,
        with: impl FnOnce(&mut Run<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let on = self::stream(py, &self.engine, self.location, stream)?;
        let reader = address(&on);
        let read = |object: &Bound<'_, PyAny>, name: &str| view(object, name, reader)?.on(self.location, name);
        let given = |object: Option<&Bound<'_, PyAny>>, name: &str| object.map(|object| read(object, name)).transpose();
        let pool = |view| if self.paged { self.layout.pool(view) } else { view };
        let (q, k, o) = (read(q, "q")?, pool(read(k, "k")?), read(o, "out")?);
        let (v, lse) = (given(v, "v")?.map(pool), given(lse, "lse")?);
        let (k_side, v_side) = (given(k_side, "k_side")?.map(pool), given(v_side, "v_side")?.map(pool));
        let k_scale = GivenScale::new(k_scale, "k_scale", read)?;
        let v_scale = GivenScale::new(v_scale, "v_scale", read)?;
        let o_scale = GivenScale::new(o_scale, "o_scale", read)?;
        let q_scale = GivenScale::new(q_scale, "q_scale", read)?;
        if self.location == Location::Cpu {
            let inputs = [
                ("q", Some(&q)),
                ("k", Some(&k)),
                ("v", v.as_ref()),
                ("k_side", k_side.as_ref()),
                ("v_side", v_side.as_ref()),
                ("k_scale", k_scale.heads.as_ref()),
                ("v_scale", v_scale.heads.as_ref()),
                ("o_scale", o_scale.heads.as_ref()),
                ("q_scale", q_scale.heads.as_ref()),
            ];
            check_apart(&[("out", Some(&o)), ("lse", lse.as_ref())], &inputs)?;
        }
        // SAFETY: the caller's tensors, which stay during the call. The outputs share no memory with the others. On a
        // device their allocator reuses memory in the order of the stream.
        let (q, kv, mut o, mut lse, o_scale) = unsafe {
            let read = |view: &Option<View>, name: &str| view.as_ref().map(|view| view.read(name)).transpose();
            let scales = KvScales { k: k_scale.scale("k_scale")?, v: v_scale.scale("v_scale")? };
            let kv = self.layout.kv(k.read("k")?, read(&v, "v")?, scales)?;
            let kv = kv.with_sides(self.layout.sides(read(&k_side, "k_side")?, read(&v_side, "v_side")?)?);
            let kv = kv.with_query_scale(q_scale.scale("q_scale")?);
            let lse = lse.as_ref().map(|lse: &View| lse.write("lse")).transpose()?;
            (q.read("q")?, kv, o.write("out")?, lse, o_scale.scale("o_scale")?)
        };
        with(&mut |options| {
            let plan = self.plan.read().unwrap_or_else(PoisonError::into_inner);
            let out = match &mut lse {
                None => Out::new(o.reborrow()),
                Some(lse) => Out::with_lse(o.reborrow(), lse.reborrow()),
            };
            let out = out.with_scale(o_scale);
            match parallel {
                None => plan.run_with(&on, q, kv, out, options)?,
                Some(parallel) => {
                    let mut of = parallel.of.lock().unwrap_or_else(PoisonError::into_inner);
                    of.run(&parallel.communicator, &plan, &on, q, kv, out, options.layer)?;
                }
            }
            let lse = lse.as_mut().filter(|_| lse_base_2);
            lse.map_or(Ok(()), |lse| attn::ops::lse_to_base_2(&on, lse.reborrow()))
        })
    }
}

/// Runs a plan with options.
type Run<'r> = dyn FnMut(RunOptions<'_>) -> Result<(), attn::Error> + Send + 'r;

/// The lock, also after a panic: a plan that failed is unchanged.
fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
