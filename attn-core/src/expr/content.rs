//! Replacing the content of a parameter tensor in place, while plans that use it live on.

use std::fmt;

use super::ExprError;
use crate::lang::{ParamValue, Tensor1, desc::Elem, param_tensor::ParamElement, params::ParamField};

/// New elements for a parameter tensor in row-major order, in host or device memory.
pub struct TensorContent<'a> {
    elem: Elem,
    bytes: usize,
    location: ContentLocation<'a>,
}

enum ContentLocation<'a> {
    Host(Box<dyn Elements + 'a>),
    Device(u64),
}

/// Host elements, without their type.
trait Elements {
    fn bytes(&self) -> &[u8];
    /// The values that an index gives, in order.
    fn values(&self) -> Vec<ParamValue>;
}

impl<T: ParamElement> Elements for &[T]
where
    Tensor1<T>: ParamField,
{
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
    fn values(&self) -> Vec<ParamValue> {
        match Tensor1::from(*self).to_value() {
            Some(ParamValue::List(values)) => values,
            _ => Vec::new(),
        }
    }
}

impl<'a> TensorContent<'a> {
    /// Elements in host memory.
    #[must_use]
    pub fn host<T: ParamElement>(values: &'a [T]) -> Self
    where
        Tensor1<T>: ParamField,
    {
        TensorContent { elem: T::ELEM, bytes: size_of_val(values), location: ContentLocation::Host(Box::new(values)) }
    }

    /// `len` elements at a device pointer.
    ///
    /// # Safety
    ///
    /// `ptr` points to `len` elements of `T` on the device of the attention, which stay valid until every copy from
    /// them has finished, replayed graph captures included.
    #[must_use]
    pub unsafe fn device<T: ParamElement>(ptr: u64, len: usize) -> Self {
        TensorContent {
            elem: T::ELEM,
            bytes: len.saturating_mul(size_of::<T>()),
            location: ContentLocation::Device(ptr),
        }
    }

    /// The length in bytes.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// The bytes; `None` in device memory.
    #[must_use]
    pub fn as_host(&self) -> Option<&[u8]> {
        match &self.location {
            ContentLocation::Host(elements) => Some(elements.bytes()),
            ContentLocation::Device(_) => None,
        }
    }

    /// The device pointer; `None` in host memory.
    #[must_use]
    pub fn device_ptr(&self) -> Option<u64> {
        match self.location {
            ContentLocation::Host(_) => None,
            ContentLocation::Device(ptr) => Some(ptr),
        }
    }
}

impl fmt::Debug for TensorContent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = if self.device_ptr().is_some() { "device" } else { "host" };
        write!(f, "{} bytes of {} in memory of the {location}", self.bytes, self.elem.name())
    }
}

/// A parameter tensor of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSlot {
    /// Number of its part, counted as [`Variant::parts`](super::Variant::parts) does; formats of keys and of values
    /// come after all parts.
    pub part: usize,
    /// Number of its field.
    pub field: usize,
    /// Name of the field.
    pub name: &'static str,
    /// The type of its elements.
    pub elem: Elem,
    /// Its extents.
    pub shape: Vec<i64>,
    /// Its bytes.
    pub bytes: usize,
}

/// Why the content of a tensor cannot be replaced.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum ContentError {
    /// No parameter or several have that name, or it refuses the values.
    #[error(transparent)]
    Expr(#[from] Box<ExprError>),
    /// The parameter is not a tensor with values.
    #[error(
        "`{name}` {why}; what is replaced in place is a parameter tensor that was given when the attention was made"
    )]
    NoTensor { name: String, why: &'static str },
    /// Plans or tile classes depend on the values of the tensor.
    #[error("`{name}` cannot be replaced in place: {why}; make another attention with the new values")]
    Fixed { name: String, why: &'static str },
    /// The elements have another type.
    #[error("`{name}` is of {want}; got {got}")]
    Elem { name: String, want: &'static str, got: &'static str },
    /// The number of elements differs.
    #[error("`{name}` takes {want} bytes, since its shape stays {shape:?}; got {got}")]
    Len { name: String, shape: Vec<i64>, want: usize, got: usize },
    /// Rows do not have the length of rows of the tensor.
    #[error(
        "{rows} rows for `{name}` of shape {shape:?} have {got} bytes in all; a row is an element or all elements \
         along the last axes, in whole bytes"
    )]
    Rows { name: String, shape: Vec<i64>, rows: usize, got: usize },
    /// A row past the end of the tensor.
    #[error(
        "row {row} of the {rows} rows of `{name}` was asked for; make the attention with a larger tensor, or give -1 \
         for a row that is not to be written"
    )]
    Row { name: String, row: i32, rows: usize },
    /// The elements are in the wrong memory: host or device.
    #[error("the values for `{name}` are in memory of {got}, and this attention is on {want}")]
    Memory { name: String, got: &'static str, want: &'static str },
}

impl TensorSlot {
    /// Checks the type and the number of the elements.
    ///
    /// # Errors
    ///
    /// The type or the number differs.
    pub fn check(&self, content: &TensorContent<'_>) -> Result<(), ContentError> {
        self.check_elem(content)?;
        if content.bytes != self.bytes {
            let (shape, want, got) = (self.shape.clone(), self.bytes, content.bytes);
            return Err(ContentError::Len { name: self.name.to_owned(), shape, want, got });
        }
        Ok(())
    }

    /// Checks the type of the elements.
    ///
    /// # Errors
    ///
    /// The type differs.
    pub fn check_elem(&self, content: &TensorContent<'_>) -> Result<(), ContentError> {
        let (want, got) = (self.elem.name(), content.elem.name());
        if want == got { Ok(()) } else { Err(ContentError::Elem { name: self.name.to_owned(), want, got }) }
    }

    /// The values in host memory.
    pub(super) fn host_values(&self, content: &TensorContent<'_>) -> Result<Vec<ParamValue>, ContentError> {
        match &content.location {
            ContentLocation::Host(elements) => Ok(elements.values()),
            ContentLocation::Device(_) => {
                Err(ContentError::Memory { name: self.name.to_owned(), got: "a CUDA device", want: "the CPU" })
            }
        }
    }
}
