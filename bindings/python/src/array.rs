//! Arrays of numbers of the caller: slots, positions, page tables, counters.

use attn::batch::I32Slice;
use attn::ops::{Array, ArrayMut, Number};
use pyo3::{prelude::*, types::PyBytes};

use crate::producer::view;
use crate::{element::Element, error::Failure, location::Location, tensor::View};

/// The number of entries of an array of `rank` dimensions, which lie one after the other and are of a type.
fn entries(view: &View, rank: usize, element: Element, name: &str) -> Result<usize, Failure> {
    let (shape, strides) = (view.dims.shape(), view.dims.strides());
    let count = view.dims.count().filter(|_| shape.len() == rank && view.dims.is_row_major());
    let Some(count) = count else {
        let dimensions = match rank {
            1 => "one dimension",
            2 => "two dimensions",
            _ => "its elements in order",
        };
        return Err(Failure::tensor(format!(
            "{name} has the shape {shape:?} and the strides {strides:?}; it has {dimensions}, without gaps: \
             pass a copy"
        )));
    };
    if view.element != element {
        let (own, want) = (view.element.name(), element.name());
        return Err(Failure::tensor(format!("{name} is of {own}; it is of {want}")));
    }
    view.check_aligned(name)?;
    Ok(count)
}

/// The entries of an array of a call, of as many dimensions as `rank`.
///
/// # Safety
///
/// Nothing writes the entries while the result lives, or, on a device, until the work of the call is done.
pub(crate) unsafe fn array<'a, T: Number>(
    view: &View,
    rank: usize,
    element: Element,
    name: &str,
) -> Result<Array<'a, T>, Failure> {
    let count = entries(view, rank, element, name)?;
    Ok(match view.location {
        // SAFETY: the caller guarantees the entries
        Location::Cuda(_) => unsafe { Array::device(view.data as u64, count) },
        // SAFETY: the caller guarantees the entries
        Location::Cpu => Array::host(unsafe { view.host(count) }),
    })
}

/// The int32 of an array of a batch.
///
/// # Safety
///
/// The conditions of [`array`].
pub(crate) unsafe fn ints<'a>(view: &View, rank: usize, name: &str) -> Result<I32Slice<'a>, Failure> {
    let count = entries(view, rank, Element::I32, name)?;
    Ok(match view.location {
        // SAFETY: the caller guarantees the entries
        Location::Cuda(_) => unsafe { I32Slice::device(view.data as u64, count) },
        // SAFETY: the caller guarantees the entries
        Location::Cpu => I32Slice::host(unsafe { view.host(count) }),
    })
}

/// A word that a kernel counts in, of uint32 or int32.
///
/// # Safety
///
/// Nothing else reads or writes it while the result lives, or, on a device, until the work of the call is done.
pub(crate) unsafe fn counter<'a>(view: &View, name: &str) -> Result<ArrayMut<'a, u32>, Failure> {
    let element = if view.element == Element::I32 { Element::I32 } else { Element::U32 };
    let count = entries(view, 1, element, name)?;
    if view.read_only {
        return Err(Failure::tensor(format!("{name} is read-only, and the call writes to it")));
    }
    Ok(match view.location {
        // SAFETY: the caller guarantees the entries
        Location::Cuda(_) => unsafe { ArrayMut::device(view.data as u64, count) },
        Location::Cpu if count == 0 => ArrayMut::host(&mut []),
        // SAFETY: the caller guarantees the entries; both types have all values
        Location::Cpu => ArrayMut::host(unsafe { std::slice::from_raw_parts_mut(view.data as *mut u32, count) }),
    })
}

/// The bytes of elements of one byte in host memory.
pub(crate) fn host_bytes(view: &View, rank: usize, element: Element, name: &str) -> Result<Vec<u8>, Failure> {
    // SAFETY: the caller's array, which stays during the call
    let bytes = unsafe { array::<u8>(view, rank, element, name) }?;
    let elsewhere =
        || Failure::tensor(format!("{name} is on {}, and is read on the host: pass {name}.cpu()", view.location));
    Ok(bytes.as_host().ok_or_else(elsewhere)?.to_vec())
}

/// The bytes of packed bits: bytes, or uint8 in host memory.
pub(crate) fn packed_bits(bits: &Bound<'_, PyAny>, name: &str) -> Result<Vec<u8>, Failure> {
    match bits.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
        Err(_) => host_bytes(&view(bits, name, None)?, 1, Element::U8, name),
    }
}
