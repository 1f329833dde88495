//! Attention whose heads are shared out to ranks.

use std::sync::{Arc, Mutex, PoisonError};

use attn::parallel;
use attn::{Engine, Heads, Out};
use pyo3::prelude::*;

use crate::argument::{ATTENTION, Arg, COUNT, optional};
use crate::attention::Attention;
use crate::engine::{address, stream};
use crate::error::call;
use crate::location::Location;
use crate::parallel::{COMMUNICATOR, Communicator};
use crate::plan::Plan;
use crate::producer::view;

/// Memory for the exchange of heads; its plan is over all tokens of the heads of this rank.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct HeadParallel {
    communicator: Arc<parallel::Communicator>,
    of: Mutex<parallel::HeadParallel>,
    engine: Engine,
    location: Location,
}

#[pymethods]
impl HeadParallel {
    #[new]
    fn new(
        py: Python<'_>,
        attention: Arg<PyRef<'_, Attention>>,
        communicator: Arg<PyRef<'_, Communicator>>,
        qo_heads: Arg<u32>,
        kv_heads: Arg<u32>,
        tokens: Arg<usize>,
    ) -> PyResult<Self> {
        call(py, || {
            let attention = attention.get(py, "attention", ATTENTION)?;
            let communicator = communicator.get(py, "communicator", COMMUNICATOR)?.of.clone();
            let (qo, kv) = (qo_heads.get(py, "qo_heads", COUNT)?, kv_heads.get(py, "kv_heads", COUNT)?);
            let tokens = tokens.get(py, "tokens", COUNT)?;
            let (engine, location, attention) = (attention.engine.clone(), attention.location, &attention.attention);
            let heads = Heads { qo, kv, ..attention.heads() };
            py.detach(|| {
                let of = parallel::HeadParallel::new(&engine, attention, &communicator, heads, tokens)?;
                Ok(HeadParallel { communicator, of: Mutex::new(of), engine, location })
            })
        })
    }

    /// Query and KV heads of a rank.
    #[staticmethod]
    fn share(
        py: Python<'_>,
        communicator: Arg<PyRef<'_, Communicator>>,
        qo_heads: Arg<u32>,
        kv_heads: Arg<u32>,
    ) -> PyResult<(u32, u32)> {
        call(py, || {
            let communicator = communicator.get(py, "communicator", COMMUNICATOR)?;
            let (qo, kv) = (qo_heads.get(py, "qo_heads", COUNT)?, kv_heads.get(py, "kv_heads", COUNT)?);
            let heads = Heads { qo, kv, head_dim: 1 };
            heads.check().map_err(attn::Error::from)?;
            let share = parallel::HeadParallel::share(&communicator.of, heads).map_err(attn::Error::from)?;
            Ok((share.qo, share.kv))
        })
    }

    /// The tokens of this rank, from begin to end.
    #[getter]
    fn tokens(&self) -> (usize, usize) {
        let tokens = self.of.lock().unwrap_or_else(PoisonError::into_inner).tokens(&self.communicator);
        (tokens.start, tokens.end)
    }

    /// Exchanges heads, runs the plan, and exchanges outputs.
    #[pyo3(signature = (plan, q, k, v, o, layer=None, stream=None))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn run(
        &self,
        py: Python<'_>,
        plan: Arg<PyRef<'_, Plan>>,
        q: &Bound<'_, PyAny>,
        k: &Bound<'_, PyAny>,
        v: &Bound<'_, PyAny>,
        o: &Bound<'_, PyAny>,
        layer: Option<Arg<PyRef<'_, Attention>>>,
        stream: Option<Arg<usize>>,
    ) -> PyResult<()> {
        call(py, || {
            let plan = plan.get(py, "plan", "a `Plan`")?;
            let plan = &*plan;
            let layer = optional(layer, py, "layer", ATTENTION)?;
            let layer = layer.as_deref().map(|layer| &layer.attention);
            let on = self::stream(py, &self.engine, self.location, stream)?;
            let view = |object, name| view(object, name, address(&on))?.on(self.location, name);
            let (q, k, v, o) = (view(q, "q")?, view(k, "k")?, view(v, "v")?, view(o, "out")?);
            // SAFETY: the caller's tensors, which stay during the call; on a device their allocator reuses memory in
            // the order of the stream.
            let (q, k, v, o) = unsafe { (q.read("q")?, k.read("k")?, v.read("v")?, o.write("out")?) };
            py.detach(|| {
                let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
                plan.with(|plan| Ok(of.run(&self.communicator, plan, &on, q, k, v, Out::new(o), layer)?))
            })
        })
    }
}
