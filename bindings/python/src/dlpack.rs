//! DLPack (its versions 0 and 1): tensors of numpy, cupy, jax and others, without copies.

use std::{
    ffi::{CStr, c_void},
    slice,
};

use pyo3::{
    exceptions::PyTypeError,
    ffi, intern,
    prelude::*,
    types::{PyCapsule, PyDict},
};

use crate::{
    engine::Location,
    error::Failure,
    tensor::{Dims, Element, View},
};

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const READ_ONLY: u64 = 1;

#[repr(C)]
pub(crate) struct Tensor {
    data: *mut c_void,
    device: [i32; 2],
    rank: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
pub(crate) struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
pub(crate) struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// A tensor that the producer lends until this is dropped.
pub(crate) enum Lent {
    Old(*mut Managed),
    New(*mut Versioned),
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: the capsule gave the tensor away, so its deleter is called here, once
        unsafe {
            match *self {
                Lent::Old(managed) => (*managed).deleter.into_iter().for_each(|delete| delete(managed)),
                Lent::New(managed) => (*managed).deleter.into_iter().for_each(|delete| delete(managed)),
            }
        }
    }
}

impl Lent {
    fn tensor(&self) -> &Tensor {
        // SAFETY: both live until the deleter is called
        unsafe {
            match *self {
                Lent::Old(managed) => &(*managed).tensor,
                Lent::New(managed) => &(*managed).tensor,
            }
        }
    }

    /// Takes the tensor of a capsule, which is marked as used.
    fn take(capsule: &Bound<'_, PyCapsule>, name: &str) -> Result<Self, Failure> {
        let take = |named: &'static CStr, used: &'static CStr| {
            // SAFETY: a live capsule; a pointer is given only if its name is `named`
            unsafe {
                if ffi::PyCapsule_IsValid(capsule.as_ptr(), named.as_ptr()) == 0 {
                    return None;
                }
                let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), named.as_ptr());
                (ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) == 0).then_some(pointer)
            }
        };
        if let Some(pointer) = take(c"dltensor_versioned", c"used_dltensor_versioned") {
            let lent = Lent::New(pointer.cast());
            // SAFETY: the version comes first in every version
            let major = unsafe { (*pointer.cast::<Versioned>()).version[0] };
            return match major {
                0 | 1 => Ok(lent),
                _ => Err(Failure::tensor(format!("{name} comes as DLPack {major}; versions 0 and 1 are known"))),
            };
        }
        let pointer = take(c"dltensor", c"used_dltensor");
        let pointer =
            pointer.ok_or_else(|| Failure::tensor(format!("{name} gave a capsule that is used or no tensor")))?;
        Ok(Lent::Old(pointer.cast()))
    }
}

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
    let read_only = match lent {
        Lent::Old(_) => false,
        // SAFETY: it lives until the deleter is called
        Lent::New(managed) => unsafe { (*managed).flags & READ_ONLY != 0 },
    };
    Ok(Some(View { data, element, location, dims, read_only, _owner: Some(lent) }))
}
