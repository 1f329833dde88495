//! Who a tensor comes from: torch, or another producer that has DLPack.

use pyo3::prelude::*;

use crate::{dlpack, error::Failure, location::Location, tensor::View, torch};

/// A tensor, wherever it is.
pub(crate) fn view(object: &Bound<'_, PyAny>, name: &str, stream: Option<usize>) -> Result<View, Failure> {
    if let Some(view) = torch::view(object, name)? {
        return Ok(view);
    }
    if let Some(view) = dlpack::view(object, name, stream)? {
        return Ok(view);
    }
    let class = object.get_type().name()?.to_string();
    Err(Failure::tensor(format!("{name} is a {class}; it must be a tensor of torch, or one that has `__dlpack__`")))
}

/// Where a tensor is.
pub(crate) fn location(object: &Bound<'_, PyAny>, name: &str) -> Result<Location, Failure> {
    match torch::view(object, name)? {
        Some(view) => Ok(view.location),
        None if object.hasattr("__dlpack__")? => dlpack::location(object, name),
        None => Ok(view(object, name, None)?.location),
    }
}
