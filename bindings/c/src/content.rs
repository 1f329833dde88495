//! New content for the parameter tensors of a variant.

use std::ffi::{c_char, c_void};

use attn::{Error, F8E4M3, F8E5M2, expr::TensorContent, ops::TensorRows};
use attn_core::lang::param_tensor::{ParamElement, Tensor};
use attn_core::lang::params::ParamField;
use half::{bf16, f16};

use crate::attention::AttnAttention;
use crate::input::{Versioned, array, check_reserved, handle, member, text, versioned};
use crate::memory::{Memory, numbers};
use crate::status::{AttnStatus, Failure, call};
use crate::stream::AttnStream;

/// The type of the elements of a parameter tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttnElement {
    /// IEEE half precision.
    F16 = 0,
    /// bfloat16.
    Bf16 = 1,
    /// IEEE single precision.
    F32 = 2,
    /// 8 bits: 4 of exponent, 3 of mantissa (OCP `e4m3fn`).
    E4m3 = 3,
    /// 8 bits: 5 of exponent, 2 of mantissa (OCP `e5m2`).
    E5m2 = 4,
    /// `int32_t`.
    I32 = 5,
    /// `uint32_t`.
    U32 = 6,
    /// `uint8_t`.
    U8 = 7,
}

const ELEMENTS: [AttnElement; 8] = [
    AttnElement::F16,
    AttnElement::Bf16,
    AttnElement::F32,
    AttnElement::E4m3,
    AttnElement::E5m2,
    AttnElement::I32,
    AttnElement::U32,
    AttnElement::U8,
];

/// Elements for a parameter tensor, in row-major order. Zero it, then set `size` and what differs from zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnContent {
    /// `sizeof(AttnContent)`.
    pub size: usize,
    /// The elements, in memory of the device.
    pub data: *const c_void,
    /// Their number.
    pub count: usize,
    /// For `attn_set_tensor_rows` the index of each row, in memory of the device: counted in rows from the start of the
    /// tensor; below 0 for a row that is not written. Null for `attn_set_tensor`.
    pub indices: *const i32,
    /// Rows.
    pub rows: usize,
    /// An `AttnElement`.
    pub element: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: its first field is its size, and all fields are numbers and pointers.
unsafe impl Versioned for AttnContent {
    const NAME: &'static str = "AttnContent";
    const FIRST_SIZE: usize = size_of::<AttnContent>();
}

impl AttnContent {
    /// The elements.
    ///
    /// # Safety
    ///
    /// The caller's elements, which live until the work that reads them is done.
    unsafe fn elements<'a>(&self, memory: &Memory) -> Result<TensorContent<'a>, Failure> {
        check_reserved(self.reserved, "AttnContent.reserved")?;
        // SAFETY: the caller guarantees it.
        unsafe {
            match member(self.element, &ELEMENTS, "AttnContent.element")? {
                AttnElement::F16 => self.of::<f16>(memory),
                AttnElement::Bf16 => self.of::<bf16>(memory),
                AttnElement::F32 => self.of::<f32>(memory),
                AttnElement::E4m3 => self.of::<F8E4M3>(memory),
                AttnElement::E5m2 => self.of::<F8E5M2>(memory),
                AttnElement::I32 => self.of::<i32>(memory),
                AttnElement::U32 => self.of::<u32>(memory),
                AttnElement::U8 => self.of::<u8>(memory),
            }
        }
    }

    unsafe fn of<'a, T: ParamElement>(&self, memory: &Memory) -> Result<TensorContent<'a>, Failure>
    where
        Tensor<T, 1>: ParamField,
    {
        let from = self.data.cast::<T>();
        memory.check_array(from, self.count, "AttnContent.data")?;
        // SAFETY: the caller guarantees it.
        Ok(unsafe {
            match memory {
                Memory::Host => TensorContent::host(array(from, self.count, "AttnContent.data")?),
                Memory::Device(_) => TensorContent::device::<T>(from as u64, self.count),
            }
        })
    }
}

/// Replaces the content of a parameter tensor in place, in the order of the stream, while plans of the attention live
/// on; later appends for the attention (`attn_append`) transform by it too. `name` is that of a field (`logits`), or
/// with its part before it (`sink.logits`). On a CUDA device it launches and returns, and the content stays until then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_set_tensor(
    stream: *const AttnStream,
    attention: *const AttnAttention,
    name: *const c_char,
    content: *const AttnContent,
) -> AttnStatus {
    // SAFETY: the caller's pointers, text and elements.
    call(|| unsafe {
        let (stream, attention) = (handle(stream, "stream")?, handle(attention, "attention")?);
        let (name, content) = (text(name, "the name")?, versioned(content)?);
        let elements = content.elements(&stream.memory)?;
        let slot = attention.attention.variant().tensor_slot(name).map_err(Error::from)?;
        slot.check(&elements).map_err(Error::from)?;
        if !content.indices.is_null() {
            return Err(Failure::argument(
                "AttnContent.indices is given, and `attn_set_tensor` replaces a whole tensor: call \
                 `attn_set_tensor_rows`, or leave it null",
            ));
        }
        attention.attention.set_tensor(&stream.stream, name, &elements)?;
        match &attention.transform {
            Some(transform) if transform.has_tensor(name) => {
                Ok(transform.set_tensor(&stream.stream, name, &elements)?)
            }
            _ => Ok(()),
        }
    })
}

/// Writes rows of a parameter tensor, as `attn_set_tensor`: the new tokens of a table that grows with the sequences.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_set_tensor_rows(
    stream: *const AttnStream,
    attention: *const AttnAttention,
    name: *const c_char,
    content: *const AttnContent,
) -> AttnStatus {
    // SAFETY: the caller's pointers, text, elements and indices.
    call(|| unsafe {
        let (stream, attention) = (handle(stream, "stream")?, handle(attention, "attention")?);
        let (name, content) = (text(name, "the name")?, versioned(content)?);
        let indices = numbers(content.indices, content.rows, &stream.memory, "AttnContent.indices")?;
        let rows = TensorRows::at(indices, content.elements(&stream.memory)?);
        attention.attention.set_tensor_rows(&stream.stream, name, &rows)?;
        match &attention.transform {
            Some(transform) if transform.has_tensor(name) => {
                Ok(transform.set_tensor_rows(&stream.stream, name, &rows)?)
            }
            _ => Ok(()),
        }
    })
}
