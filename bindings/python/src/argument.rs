//! Arguments of Python calls. Where pyo3 would raise a `TypeError` that does not say which argument is wrong, a
//! function takes an [`Arg`], whose exception names the argument and what it should be.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::error::Failure;

/// An argument, or why the object that was passed is none. Extraction always succeeds: the error is raised by
/// [`Arg::get`], where the name is known.
pub(crate) struct Arg<T>(Result<T, Refused>);

/// The class of an object that is no such argument, and the error of pyo3.
struct Refused {
    class: String,
    error: PyErr,
}

impl Refused {
    fn new(object: Borrowed<'_, '_, PyAny>, error: PyErr) -> Self {
        let class = object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        Refused { class, error }
    }
}

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Arg<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        // `True` is the number 1 in Python, which no caller means
        Ok(Arg(match object.is_instance_of::<PyBool>() {
            true => Err(Refused::new(object, PyTypeError::new_err("a bool"))),
            false => object.extract().map_err(|error: T::Error| Refused::new(object, error.into())),
        }))
    }
}

/// An argument that is `True` or `False`, with the errors of an [`Arg`].
pub(crate) struct Flag(Arg<bool>);

impl<'py> FromPyObject<'_, 'py> for Flag {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Flag(Arg(object.extract().map_err(|error| Refused::new(object, error)))))
    }
}

impl Flag {
    pub(crate) fn get(self, py: Python<'_>, name: &str) -> Result<bool, Failure> {
        self.0.get(py, name, "True or False")
    }
}

impl<T> Arg<T> {
    /// The argument with this name; `what` says in a message what it should be.
    pub(crate) fn get(self, py: Python<'_>, name: &str, what: &str) -> Result<T, Failure> {
        self.0.map_err(|Refused { class, error }| match error.is_instance_of::<PyOverflowError>(py) {
            true => Failure::OutOfRange(format!("{name} is out of range ({error}); it is {what}")),
            false => Failure::WrongType(format!("{name} is of the type `{class}`; it is {what}")),
        })
    }
}

/// An argument that may be left out.
pub(crate) fn optional<T>(
    argument: Option<Arg<T>>,
    py: Python<'_>,
    name: &str,
    what: &str,
) -> Result<Option<T>, Failure> {
    argument.map(|argument| argument.get(py, name, what)).transpose()
}

// what arguments should be, in messages
pub(crate) const COUNT: &str = "a whole number from 0 to 4294967295";
pub(crate) const NUMBER: &str = "a number";
pub(crate) const TEXT: &str = "a str";
pub(crate) const STREAM: &str = "the address of a CUDA stream, a whole number";
pub(crate) const BATCH: &str = "a `Batch`, such as `Batch.ragged(..)`, `Batch.paged(..)` or `Batch.block_table(..)`";
pub(crate) const DEVICE_BATCH: &str =
    "a `DeviceBatch`, such as `DeviceBatch.ragged(..)` or `DeviceBatch.block_table(..)`";
pub(crate) const ATTENTION: &str = "an `Attention`";
