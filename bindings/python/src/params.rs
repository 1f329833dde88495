//! Parameters of variants, from numbers, lists and arrays.

use attn::lang::ParamValue;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyTuple};

use crate::error::Failure;

/// The most elements of a parameter that is given by value, each of which takes some 70 bytes here.
const MOST: usize = 1 << 26;

/// The value of a parameter: `cap`, or `soft_cap.cap`.
pub(crate) fn read(path: &str, value: &Bound<'_, PyAny>) -> Result<ParamValue, Failure> {
    if value.is_instance_of::<PyBool>() {
        return Ok(ParamValue::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        let range = |_| Failure::OutOfRange(format!("`{path}` is {value}; whole numbers are below 2^63"));
        return Ok(ParamValue::Int(value.extract().map_err(range)?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(ParamValue::Float(value.extract()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        check_count(path, value.len()?)?;
        // not by a hint of the length, which a subclass may give
        let mut values = Vec::new();
        for value in value.try_iter()? {
            values.push(read(path, &value?)?);
            check_count(path, values.len())?;
        }
        return Ok(ParamValue::List(values));
    }
    let py = value.py();
    // arrays and scalars of numpy, tensors of torch
    if value.hasattr(intern!(py, "tolist"))? {
        // an array may repeat its elements, and a list has each of them
        check_count(path, size_of(value).unwrap_or(1))?;
        return read(path, &value.call_method0(intern!(py, "tolist"))?);
    }
    let class = value.get_type().name()?.to_string();
    Err(Failure::argument(format!("`{path}` is a {class}; a parameter is a number, a list of numbers, or an array")))
}

/// The number of elements of an array.
fn size_of(array: &Bound<'_, PyAny>) -> PyResult<usize> {
    let mut size = 1usize;
    for length in array.getattr(intern!(array.py(), "shape"))?.try_iter()? {
        size = size.saturating_mul(length?.extract()?);
    }
    Ok(size)
}

fn check_count(path: &str, count: usize) -> Result<(), Failure> {
    if count <= MOST {
        return Ok(());
    }
    let remedy = "give fewer";
    Err(Failure::argument(format!("`{path}` has {count} elements; by value it has at most {MOST}: {remedy}")))
}
