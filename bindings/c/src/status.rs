//! The status that each C function returns, and the text of a thread's last error.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use attn::{Error, ErrorKind, ExprError, TensorError, ops::OpError};

/// How a call ended. [`attn_last_error`] has the text.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttnStatus {
    /// It did what was asked.
    Ok = 0,
    /// A null pointer, a struct of unknown size, a number that is no member of its enum, text that is not UTF-8.
    InvalidArgument = 1,
    /// An expression that is none, a variant that does not exist, a parameter that does not fit.
    InvalidVariant = 2,
    /// A batch that contradicts itself, or exceeds the capacity of a plan.
    InvalidBatch = 3,
    /// A tensor of another shape, type, memory or alignment than the batch needs.
    InvalidTensor = 4,
    /// Heads, element types or options that no kernel supports.
    Unsupported = 5,
    /// No driver, no such device, or a build without the CUDA backend.
    NoDevice = 6,
    /// The driver, the compiler or a kernel failed.
    Cuda = 7,
    /// A bug of the library.
    Internal = 8,
}

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Failure {
    status: AttnStatus,
    text: String,
}

impl Failure {
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Failure { status: AttnStatus::InvalidArgument, text: text.into() }
    }

    pub(crate) fn tensor(text: impl Into<String>) -> Self {
        Failure { status: AttnStatus::InvalidTensor, text: text.into() }
    }

    /// The same, of a part of what the caller passed.
    pub(crate) fn within(self, part: impl Display) -> Self {
        Failure { text: format!("{part}: {}", self.text), ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { status: status_of(&error), text: error.to_string() }
    }
}

impl From<ExprError> for Failure {
    fn from(error: ExprError) -> Self {
        Error::from(error).into()
    }
}

impl From<TensorError> for Failure {
    fn from(error: TensorError) -> Self {
        Error::from(error).into()
    }
}

impl From<OpError> for Failure {
    fn from(error: OpError) -> Self {
        Error::from(error).into()
    }
}

/// The class of an error of the library.
fn status_of(error: &Error) -> AttnStatus {
    match error.kind() {
        ErrorKind::InvalidArgument => AttnStatus::InvalidArgument,
        ErrorKind::InvalidVariant => AttnStatus::InvalidVariant,
        ErrorKind::InvalidBatch => AttnStatus::InvalidBatch,
        ErrorKind::InvalidTensor => AttnStatus::InvalidTensor,
        ErrorKind::Unsupported => AttnStatus::Unsupported,
        ErrorKind::NoDevice => AttnStatus::NoDevice,
        ErrorKind::Cuda => AttnStatus::Cuda,
        _ => AttnStatus::Internal,
    }
}

/// Runs a call: its failures and panics become a status and a text.
pub(crate) fn call(run: impl FnOnce() -> Result<(), Failure>) -> AttnStatus {
    let failure = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => return AttnStatus::Ok,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure { status: AttnStatus::Internal, text: format!("a bug of attn-rs: {}", text_of(&*panic)) },
    };
    let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = Some(text));
    failure.status
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}

/// Frees a handle. A panic of its destructor is swallowed: there is nobody to tell.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the caller has it from `give`, and frees it once.
        let owned = unsafe { Box::from_raw(handle) };
        drop(catch_unwind(AssertUnwindSafe(|| drop(owned))));
    }
}

/// The text of the last call of this thread that failed; null if none did. It stays until the next one fails.
#[unsafe(no_mangle)]
pub extern "C" fn attn_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_deref().map_or(ptr::null(), CStr::as_ptr))
}
