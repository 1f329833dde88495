//! Devices and their streams, made once for the process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use attn::{CostTable, Engine, Stream};
use pyo3::prelude::*;

use crate::argument::{Arg, STREAM, TEXT, optional};
use crate::error::{Failure, call};
use crate::location::Location;
use crate::torch;

static ENGINES: Mutex<BTreeMap<Location, Engine>> = Mutex::new(BTreeMap::new());

/// The engine of a device.
pub(crate) fn engine(location: Location) -> Result<Engine, Failure> {
    engine_of(&mut ENGINES.lock().unwrap_or_else(PoisonError::into_inner), location)
}

fn engine_of(engines: &mut BTreeMap<Location, Engine>, location: Location) -> Result<Engine, Failure> {
    if let Some(engine) = engines.get(&location) {
        return Ok(engine.clone());
    }
    let engine = match location {
        Location::Cpu => Engine::cpu(),
        Location::Cuda(ordinal) => Engine::cuda(ordinal)?,
    };
    engines.insert(location, engine.clone());
    Ok(engine)
}

/// The stream of a call: the one whose address the caller gives, else the current one of torch, else the default one.
pub(crate) fn stream(
    py: Python<'_>,
    engine: &Engine,
    location: Location,
    given: Option<Arg<usize>>,
) -> Result<Arc<Stream>, Failure> {
    let given = optional(given, py, "stream", STREAM)?;
    type Streams = BTreeMap<(Location, usize), Arc<Stream>>;
    static STREAMS: LazyLock<Mutex<Streams>> = LazyLock::new(Mutex::default);
    let ordinal = match (location, given) {
        (Location::Cpu, None) => {
            static CPU: LazyLock<Option<Arc<Stream>>> = LazyLock::new(|| Engine::cpu().stream().ok().map(Arc::new));
            return CPU.clone().ok_or_else(|| Failure::argument("the CPU has no stream"));
        }
        (Location::Cpu, Some(_)) => return Err(Failure::argument("a stream is given, and the tensors are on the CPU")),
        (Location::Cuda(ordinal), _) => ordinal,
    };
    // SAFETY: a stream of the device, which the caller keeps; those of torch are never destroyed.
    let make = |raw: usize| unsafe { Stream::from_raw(engine, raw as *mut _) }.map(Arc::new);
    if let Some(raw) = given {
        // the caller may destroy it after the call
        return Ok(make(raw)?);
    }
    let raw = torch::current_stream(py, ordinal)?.unwrap_or(0);
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stream) = streams.get(&(location, raw)) {
        return Ok(stream.clone());
    }
    let stream = make(raw)?;
    streams.insert((location, raw), stream.clone());
    Ok(stream)
}

/// The address of a stream; `None` on the CPU.
pub(crate) fn address(stream: &Stream) -> Option<usize> {
    stream.as_raw().map(|raw| raw as usize)
}

/// Loads measured costs for what is made on a device from now on.
#[pyfunction]
pub(crate) fn load_costs(py: Python<'_>, path: Arg<PathBuf>, device: Arg<&str>) -> PyResult<()> {
    call(py, || {
        let location = Location::parse(device.get(py, "device", TEXT)?)?;
        let path = path.get(py, "path", "a path")?;
        py.detach(|| {
            let costs = CostTable::load(path).map_err(attn::Error::from)?;
            let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
            let engine = engine_of(&mut engines, location)?.with_costs(&costs);
            engines.insert(location, engine);
            Ok(())
        })
    })
}

/// Lets go of what captured calls use on a device, whether their plans are there or not.
#[pyfunction]
pub(crate) fn release_captured(py: Python<'_>, device: Arg<&str>) -> PyResult<()> {
    call(py, || {
        let location = Location::parse(device.get(py, "device", TEXT)?)?;
        let engine = ENGINES.lock().unwrap_or_else(PoisonError::into_inner).get(&location).cloned();
        // without an engine nothing was captured
        py.detach(|| engine.iter().for_each(Engine::release_captured));
        Ok(())
    })
}

/// The name of a device: `CPU (2 threads)`, or that of a GPU.
#[pyfunction]
pub(crate) fn describe(py: Python<'_>, device: Arg<&str>) -> PyResult<String> {
    call(py, || {
        let location = Location::parse(device.get(py, "device", TEXT)?)?;
        Ok(py.detach(|| engine(location))?.to_string())
    })
}
