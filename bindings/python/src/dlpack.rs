//! DLPack (its versions 0 and 1): tensors of numpy, cupy, jax and others, without copies.

pub(crate) mod lent;

use std::slice;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use lent::Lent;

use crate::{dims::Dims, element::Element, error::Failure, location::Location, tensor::View};

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;

/// What a producer does not give: numpy has no DLPack of other byte orders, for one.
fn refused(name: &str, why: impl std::fmt::Display) -> Failure {
    Failure::tensor(format!("{name} is not given by its producer: {why}"))
}

/// Where a tensor is, without taking it: `__dlpack__` may order streams.
pub(crate) fn location(object: &Bound<'_, PyAny>, name: &str) -> Result<Location, Failure> {
    let device = object.call_method0(intern!(object.py(), "__dlpack_device__"));
    let device = device.and_then(|device| device.extract::<(i32, i32)>());
    let (kind, id) = device.map_err(|error| refused(name, &error))?;
    match kind {
        CPU | CUDA_HOST => Ok(Location::Cpu),
        CUDA => Ok(Location::Cuda(id.try_into().unwrap_or(0))),
        _ => Err(Failure::tensor(format!("{name} is on DLPack device {kind}; tensors are on CPUs or CUDA"))),
    }
}

/// The tensor of an object that has `__dlpack__`; `None` for others. `stream` is the one that will read it.
pub(crate) fn view<'py>(
    object: &Bound<'py, PyAny>,
    name: &str,
    stream: Option<usize>,
) -> Result<Option<View>, Failure> {
    let py = object.py();
    if !object.hasattr(intern!(py, "__dlpack__"))? {
        return Ok(None);
    }
    let location = location(object, name)?;
    let options = PyDict::new(py);
    if let Location::Cuda(_) = location {
        // the legacy default stream is 1 there
        options.set_item("stream", stream.filter(|&stream| stream != 0).unwrap_or(1))?;
    }
    let ask = |options: Bound<'py, PyDict>| object.call_method(intern!(py, "__dlpack__"), (), Some(&options));
    let newer = options.copy()?;
    newer.set_item("max_version", (1, 0))?;
    let capsule = match ask(newer) {
        // a producer from before version 1
        Err(error) if error.is_instance_of::<PyTypeError>(py) => ask(options),
        capsule => capsule,
    };
    let capsule = capsule.map_err(|error| refused(name, &error))?;
    let capsule = capsule.cast::<PyCapsule>();
    let lent = Lent::take(capsule.map_err(|_| refused(name, "`__dlpack__` gave no capsule"))?, name)?;
    let tensor = lent.tensor();
    let element = match (tensor.code, tensor.bits, tensor.lanes) {
        (2, 16, 1) => Element::F16,
        (2, 32, 1) => Element::F32,
        (4, 16, 1) => Element::Bf16,
        (10, 8, 1) => Element::E4m3,
        (12, 8, 1) => Element::E5m2,
        (1, 8, 1) => Element::U8,
        (1, 16, 1) => Element::U16,
        (1, 32, 1) => Element::U32,
        (1, 64, 1) => Element::U64,
        (0, 8, 1) => Element::I8,
        (0, 16, 1) => Element::I16,
        (0, 32, 1) => Element::I32,
        (0, 64, 1) => Element::I64,
        (2, 64, 1) => Element::F64,
        (6, 8, 1) => Element::Bool,
        (code, bits, lanes) => {
            let words = ["int", "uint", "float", "handle", "bfloat", "complex", "bool"];
            let word = words.get(usize::from(code)).copied().unwrap_or("type");
            let lanes = if lanes == 1 { String::new() } else { format!(" x {lanes}") };
            return Err(Failure::tensor(format!("{name} is of {word}{bits}{lanes}; {}", Element::POSSIBLE)));
        }
    };
    let rank = usize::try_from(tensor.rank).unwrap_or(0);
    let array = |from: *const i64| match rank {
        0 => &[][..],
        _ if from.is_null() => &[],
        // SAFETY: the producer's arrays have as many entries as the rank
        _ => unsafe { slice::from_raw_parts(from, rank) },
    };
    let dims = Dims::new(array(tensor.shape), (!tensor.strides.is_null()).then(|| array(tensor.strides)), name)?;
    let data = (tensor.data as usize).wrapping_add(tensor.byte_offset as usize);
    let read_only = lent.is_read_only();
    Ok(Some(View { data, element, location, dims, read_only, _owner: Some(lent) }))
}
