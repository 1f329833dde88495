//! Parameters of variants, from numbers, lists and arrays.

use attn::{Variant, lang::ParamValue};
use pyo3::{
    intern,
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyList, PyTuple},
};

use crate::error::Failure;

/// Sets a parameter of a variant: `cap`, or `soft_cap.cap`.
pub(crate) fn set(variant: &mut Variant, path: &str, value: &Bound<'_, PyAny>) -> Result<(), Failure> {
    Ok(variant.set(path, read(path, value)?)?)
}

fn read(path: &str, value: &Bound<'_, PyAny>) -> Result<ParamValue, Failure> {
    if value.is_instance_of::<PyBool>() {
        return Ok(ParamValue::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(ParamValue::Int(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(ParamValue::Float(value.extract()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let values = value.try_iter()?.map(|value| read(path, &value?)).collect::<Result<Vec<_>, Failure>>()?;
        return Ok(ParamValue::List(values));
    }
    let py = value.py();
    // arrays and scalars of numpy, tensors of torch
    if value.hasattr(intern!(py, "tolist"))? {
        return read(path, &value.call_method0(intern!(py, "tolist"))?);
    }
    let class = value.get_type().name()?.to_string();
    Err(Failure::argument(format!("`{path}` is a {class}; a parameter is a number, a list of numbers, or an array")))
}
