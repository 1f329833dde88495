//! Plans and runs.

use std::sync::{PoisonError, RwLock};

use attn::{KvScales, Out, PlanOptions, RunOptions, Workspace};
use pyo3::prelude::*;

use crate::{
    attention::Attention,
    batch::{Batch, Capacity},
    engine::{Place, stream},
    error::call,
    tensor::{KvLayout, View, view},
};

/// A planned batch, with the memory of its work list and partial states. It can run any number of times.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct Plan {
    plan: RwLock<attn::Plan>,
    layout: KvLayout,
    engine: attn::Engine,
    place: Place,
    /// Beside the plan, which needs it.
    workspace: RwLock<Option<Workspace>>,
}

#[pymethods]
impl Plan {
    /// Plans a batch. `reuse` is a plan that is not needed any more: its workspace becomes that of this one.
    #[new]
    #[pyo3(signature = (attention, batch, kv_layout, capacity=None, layers=vec![], reuse=None, stream=None))]
    fn new(
        py: Python<'_>,
        attention: &Attention,
        batch: &Batch,
        kv_layout: &str,
        capacity: Option<&Capacity>,
        layers: Vec<PyRef<'_, Attention>>,
        reuse: Option<&Plan>,
        stream: Option<usize>,
    ) -> PyResult<Self> {
        call(py, || {
            let layout = KvLayout::parse(kv_layout)?;
            let (engine, place) = (attention.engine.clone(), attention.place);
            let stream = self::stream(py, &engine, place, stream)?;
            let layers: Vec<&attn::Attention> = layers.iter().map(|layer| &layer.attention).collect();
            let capacity = capacity.map(|capacity| capacity.0);
            let reused = reuse.filter(|reuse| reuse.place == place);
            py.detach(|| {
                let reused = reused.and_then(|plan| write(&plan.workspace).take());
                let mut workspace = reused.unwrap_or_else(|| engine.workspace());
                let options = PlanOptions { capacity, layers: &layers, stream: Some(&stream) };
                let plan = attention.attention.plan_with(&batch.batch(), &mut workspace, options)?;
                Ok(Plan { plan: RwLock::new(plan), layout, engine, place, workspace: RwLock::new(Some(workspace)) })
            })
        })
    }

    /// Updates the plan to another batch within its capacity.
    #[pyo3(signature = (batch, stream=None))]
    fn update(&self, py: Python<'_>, batch: &Batch, stream: Option<usize>) -> PyResult<()> {
        call(py, || {
            let stream = self::stream(py, &self.engine, self.place, stream)?;
            Ok(py.detach(|| write(&self.plan).update(&stream, &batch.batch()))?)
        })
    }

    /// Runs the attention into `o` and, if it is given, `lse`.
    #[allow(clippy::too_many_arguments)] // Python's keywords
    #[pyo3(signature = (q, k, v, o, lse=None, layer=None, partial=false, k_scale=1.0, v_scale=1.0, stream=None))]
    fn run(
        &self,
        py: Python<'_>,
        q: &Bound<'_, PyAny>,
        k: &Bound<'_, PyAny>,
        v: Option<&Bound<'_, PyAny>>,
        o: &Bound<'_, PyAny>,
        lse: Option<&Bound<'_, PyAny>>,
        layer: Option<&Attention>,
        partial: bool,
        k_scale: f32,
        v_scale: f32,
        stream: Option<usize>,
    ) -> PyResult<()> {
        call(py, || {
            let on = self::stream(py, &self.engine, self.place, stream)?;
            let read = |object: &Bound<'_, PyAny>, name: &str| view(object, name, stream)?.on(self.place, name);
            let (q, k, o) = (read(q, "q")?, read(k, "k")?, read(o, "out")?);
            let v = v.map(|v| read(v, "v")).transpose()?;
            let lse = lse.map(|lse| read(lse, "lse")).transpose()?;
            if self.place == Place::Cpu {
                let mut others = vec![("q", &q), ("k", &k)];
                others.extend(v.as_ref().map(|v| ("v", v)));
                lse.as_ref().map_or(Ok(()), |lse| lse.check_apart("lse", &others))?;
                others.extend(lse.as_ref().map(|lse| ("lse", lse)));
                o.check_apart("out", &others)?;
            }
            // SAFETY: the caller's tensors, which stay during the call. On the CPU the output reaches into none of the
            // others. On a device their allocator reuses memory in the order of the stream.
            unsafe {
                let scales = KvScales::of(k_scale, v_scale);
                let kv = self.layout.kv(k.read("k")?, v.as_ref().map(|v| v.read("v")).transpose()?, scales)?;
                let q = q.read("q")?;
                let o = o.write("out")?;
                let out = match lse.as_ref().map(|lse: &View| lse.write("lse")).transpose()? {
                    None => Out::new(o),
                    Some(lse) => Out::with_lse(o, lse),
                };
                let options = RunOptions { layer: layer.map(|layer| &layer.attention), partial };
                py.detach(|| {
                    let plan = self.plan.read().unwrap_or_else(PoisonError::into_inner);
                    plan.run_with(&on, q, kv, out, options)
                })?;
            }
            Ok(())
        })
    }

    /// Queries of the batch.
    #[getter]
    fn qo_tokens(&self, py: Python<'_>) -> usize {
        py.detach(|| self.plan.read().unwrap_or_else(PoisonError::into_inner).layout().qo_tokens())
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

/// The lock, also after a panic: a plan that failed is unchanged.
fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
