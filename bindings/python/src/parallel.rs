//! Ranks of a group of devices, and attention over keys or queries of several ranks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use attn::parallel;
use attn::{Engine, Out};
use pyo3::{prelude::*, types::PyBytes};

use crate::argument::{ATTENTION, Arg, COUNT, Flag, NUMBER, TEXT, optional};
use crate::attention::Attention;
use crate::engine::{address, engine, stream};
use crate::error::{Failure, call};
use crate::location::Location;
use crate::producer::view;

pub(crate) const COMMUNICATOR: &str = "a `Communicator`";

/// A rank of a group of devices.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct Communicator {
    pub(crate) of: Arc<parallel::Communicator>,
    engine: Engine,
    location: Location,
}

/// How long ranks wait for each other, from seconds.
fn limit(py: Python<'_>, seconds: Arg<f64>) -> Result<Duration, Failure> {
    let seconds = seconds.get(py, "limit", "a number of seconds")?;
    Duration::try_from_secs_f64(seconds).map_err(|why| Failure::argument(format!("limit is {seconds}: {why}")))
}

#[pymethods]
impl Communicator {
    /// An id of a new group, for all of its ranks.
    #[staticmethod]
    fn unique_id(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
        call(py, || Ok(PyBytes::new(py, &py.detach(parallel::Communicator::unique_id)?)))
    }

    /// Joins the group of an id.
    #[staticmethod]
    fn join(
        py: Python<'_>,
        device: Arg<&str>,
        id: Arg<Vec<u8>>,
        rank: Arg<usize>,
        ranks: Arg<usize>,
        limit: Arg<f64>,
    ) -> PyResult<Self> {
        call(py, || {
            let location = Location::parse(device.get(py, "device", TEXT)?)?;
            let id = id.get(py, "id", "the bytes of `Communicator.unique_id()`")?;
            let id: [u8; 128] = id.try_into().map_err(|_| Failure::argument("id has other than 128 bytes"))?;
            let (rank, ranks) = (rank.get(py, "rank", COUNT)?, ranks.get(py, "ranks", COUNT)?);
            if rank >= ranks {
                return Err(Failure::argument(format!("rank is {rank} of {ranks}; it is less")));
            }
            let limit = self::limit(py, limit)?;
            py.detach(|| {
                let engine = engine(location)?;
                let of = Arc::new(parallel::Communicator::join(&engine, id, rank, ranks, limit)?);
                Ok(Communicator { of, engine, location })
            })
        })
    }

    /// The ranks of a group of threads, on the CPU.
    #[staticmethod]
    fn threads(py: Python<'_>, ranks: Arg<usize>, limit: Arg<f64>) -> PyResult<Vec<Self>> {
        call(py, || {
            let (ranks, limit) = (ranks.get(py, "ranks", COUNT)?, self::limit(py, limit)?);
            let (engine, location) = (engine(Location::Cpu)?, Location::Cpu);
            let of = |of| Communicator { of: Arc::new(of), engine: engine.clone(), location };
            Ok(parallel::Communicator::threads(ranks, limit).into_iter().map(of).collect())
        })
    }

    /// The index of this rank.
    #[getter]
    fn rank(&self) -> usize {
        self.of.rank()
    }

    /// The number of ranks.
    #[getter]
    fn ranks(&self) -> usize {
        self.of.ranks()
    }

    /// Runs `all_gather`, `all_reduce` or `all_to_all`.
    fn exchange(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        receive: &Bound<'_, PyAny>,
        collective: Arg<String>,
        stream: Option<Arg<usize>>,
    ) -> PyResult<()> {
        call(py, || {
            let collective = collective.get(py, "collective", TEXT)?;
            let on = self::stream(py, &self.engine, self.location, stream)?;
            let view = |object, name| view(object, name, address(&on))?.on(self.location, name);
            let (send, receive) = (view(send, "send")?, view(receive, "receive")?);
            // SAFETY: the caller's tensors, which stay during the call; on a device their allocator reuses memory in
            // the order of the stream.
            let (send, receive) = unsafe { (send.read("send")?, receive.write("receive")?) };
            py.detach(|| match collective.as_str() {
                "all_reduce" => Ok(self.of.all_reduce(&on, send, receive)?),
                "all_to_all" => Ok(self.of.all_to_all(&on, send, receive)?),
                _ => Ok(self.of.all_gather(&on, send, receive)?),
            })
        })
    }

    /// Waits for the stream no longer than the limit of the group.
    #[pyo3(signature = (stream=None))]
    fn wait(&self, py: Python<'_>, stream: Option<Arg<usize>>) -> PyResult<()> {
        call(py, || {
            let on = self::stream(py, &self.engine, self.location, stream)?;
            Ok(py.detach(|| self.of.wait(&on))?)
        })
    }

    /// Breaks the group.
    fn abort(&self, py: Python<'_>, why: Arg<String>) -> PyResult<()> {
        call(py, || {
            let why = why.get(py, "why", TEXT)?;
            py.detach(|| self.of.abort(why));
            Ok(())
        })
    }
}

/// Memory for the states of decode context parallelism; `Plan.run` takes it.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct DecodeContextParallel {
    pub(crate) communicator: Arc<parallel::Communicator>,
    pub(crate) of: Mutex<parallel::DecodeContextParallel>,
}

#[pymethods]
impl DecodeContextParallel {
    #[new]
    fn new(
        py: Python<'_>,
        attention: Arg<PyRef<'_, Attention>>,
        communicator: Arg<PyRef<'_, Communicator>>,
        tokens: Arg<usize>,
        scatter_heads: Flag,
    ) -> PyResult<Self> {
        call(py, || {
            let attention = attention.get(py, "attention", ATTENTION)?;
            let communicator = communicator.get(py, "communicator", COMMUNICATOR)?;
            let (tokens, scatter) = (tokens.get(py, "tokens", COUNT)?, scatter_heads.get(py, "scatter_heads")?);
            let communicator = communicator.of.clone();
            let (engine, attention) = (&attention.engine, &attention.attention);
            py.detach(|| {
                let of = parallel::DecodeContextParallel::new(engine, attention, &communicator, tokens, scatter)?;
                Ok(DecodeContextParallel { communicator, of: Mutex::new(of) })
            })
        })
    }
}

/// A plan of prompts whose tokens are on several ranks.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct PrefillContextParallel {
    communicator: Arc<parallel::Communicator>,
    of: Mutex<parallel::PrefillContextParallel>,
    engine: Engine,
    location: Location,
}

#[pymethods]
impl PrefillContextParallel {
    #[new]
    fn new(
        py: Python<'_>,
        attention: Arg<PyRef<'_, Attention>>,
        communicator: Arg<PyRef<'_, Communicator>>,
        lens: Arg<Vec<usize>>,
    ) -> PyResult<Self> {
        call(py, || {
            let attention = attention.get(py, "attention", ATTENTION)?;
            let communicator = communicator.get(py, "communicator", COMMUNICATOR)?.of.clone();
            let lens = lens.get(py, "lens", "a list of whole numbers")?;
            let (engine, location, attention) = (attention.engine.clone(), attention.location, &attention.attention);
            py.detach(|| {
                let of = parallel::PrefillContextParallel::new(&engine, attention, &communicator, &lens)?;
                Ok(PrefillContextParallel { communicator, of: Mutex::new(of), engine, location })
            })
        })
    }

    /// The tokens of a rank of a request, as pairs of begin and end.
    #[staticmethod]
    fn chunks(
        py: Python<'_>,
        communicator: Arg<PyRef<'_, Communicator>>,
        len: Arg<usize>,
    ) -> PyResult<Vec<(usize, usize)>> {
        call(py, || {
            let communicator = communicator.get(py, "communicator", COMMUNICATOR)?;
            let len = len.get(py, "len", NUMBER)?;
            let shard = parallel::PrefillContextParallel::shard(&communicator.of);
            Ok(shard.chunks(len).into_iter().map(|chunk| (chunk.start, chunk.end)).collect())
        })
    }

    /// Gathers keys and values, and computes the outputs of the tokens of this rank.
    #[pyo3(signature = (q, k, v, o, lse=None, layer=None, stream=None))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn run(
        &self,
        py: Python<'_>,
        q: &Bound<'_, PyAny>,
        k: &Bound<'_, PyAny>,
        v: &Bound<'_, PyAny>,
        o: &Bound<'_, PyAny>,
        lse: Option<&Bound<'_, PyAny>>,
        layer: Option<Arg<PyRef<'_, Attention>>>,
        stream: Option<Arg<usize>>,
    ) -> PyResult<()> {
        call(py, || {
            let layer = optional(layer, py, "layer", ATTENTION)?;
            let layer = layer.as_deref().map(|layer| &layer.attention);
            let on = self::stream(py, &self.engine, self.location, stream)?;
            let view = |object, name| view(object, name, address(&on))?.on(self.location, name);
            let (q, k, v, o) = (view(q, "q")?, view(k, "k")?, view(v, "v")?, view(o, "out")?);
            let lse = lse.map(|lse| view(lse, "lse")).transpose()?;
            // SAFETY: the caller's tensors, which stay during the call; on a device their allocator reuses memory in
            // the order of the stream.
            let (q, k, v, o, lse) = unsafe {
                let lse = lse.as_ref().map(|lse| lse.write("lse")).transpose()?;
                (q.read("q")?, k.read("k")?, v.read("v")?, o.write("out")?, lse)
            };
            py.detach(|| {
                let out = Out { lse, ..Out::new(o) };
                let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(of.run(&self.communicator, &on, q, k, v, out, layer)?)
            })
        })
    }
}
