//! How calls fail: exceptions of `attn_rs._errors`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use attn::{Error, ErrorKind, ExprError, TensorError, ops::OpError};
use pyo3::{prelude::*, types::PyType};

/// Why a call fails.
pub(crate) enum Failure {
    /// The class of the exception, and its text.
    Ours(ErrorKind, String),
    /// An invalid argument of another type, which is a `TypeError` too.
    WrongType(String),
    /// An invalid argument that its type cannot hold, which is an `OverflowError` too.
    OutOfRange(String),
    /// An exception of the caller's objects.
    Theirs(PyErr),
}

impl Failure {
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Failure::Ours(ErrorKind::InvalidArgument, text.into())
    }

    pub(crate) fn variant(text: impl Into<String>) -> Self {
        Failure::Ours(ErrorKind::InvalidVariant, text.into())
    }

    pub(crate) fn batch(text: impl Into<String>) -> Self {
        Failure::Ours(ErrorKind::InvalidBatch, text.into())
    }

    pub(crate) fn tensor(text: impl Into<String>) -> Self {
        Failure::Ours(ErrorKind::InvalidTensor, text.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Ours(error.kind(), error.to_string())
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Theirs(error)
    }
}

/// What becomes an [`Error`] first.
macro_rules! through_error {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Error::from(error).into()
            }
        }
    )*};
}
through_error!(ExprError, TensorError, OpError);

/// Runs a call: its failures and panics become exceptions.
pub(crate) fn call<T>(py: Python<'_>, run: impl FnOnce() -> Result<T, Failure>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Failure::Theirs(error))) => Err(error),
        Ok(Err(Failure::Ours(kind, text))) => Err(exception(py, class_of(kind), text)),
        Ok(Err(Failure::WrongType(text))) => Err(exception(py, "WrongType", text)),
        Ok(Err(Failure::OutOfRange(text))) => Err(exception(py, "OutOfRange", text)),
        Err(panic) => {
            let text = format!("a bug of attn-rs: {}", text_of(&*panic));
            Err(exception(py, class_of(ErrorKind::Internal), text))
        }
    }
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}

/// The name of the exception of a kind.
fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidArgument => "InvalidArgument",
        ErrorKind::InvalidVariant => "InvalidVariant",
        ErrorKind::InvalidBatch => "InvalidBatch",
        ErrorKind::InvalidTensor => "InvalidTensor",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::NoDevice => "NoDevice",
        ErrorKind::Cuda => "CudaFailure",
        _ => "InternalError",
    }
}

fn exception(py: Python<'_>, name: &str, text: String) -> PyErr {
    let class = py.import("attn_rs._errors").and_then(|errors| errors.getattr(name));
    match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => PyErr::from_type(class, text),
        Err(error) => error,
    }
}
