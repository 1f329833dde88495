//! Arrays of numbers of the caller: slots, positions, page tables, counters.

use attn::batch::I32Slice;
use attn::ops::{Array, ArrayMut, Number};
use pyo3::{prelude::*, types::PyBytes};

use crate::producer::view;
use crate::tensor::{ANY, View, entries, entries_mut};
use crate::{element::Element, error::Failure, location::Location};

/// The number of entries of an array of `rank` dimensions.
fn count(view: &View, rank: usize, element: Element, name: &str) -> Result<usize, Failure> {
    view.count(&[element], &vec![ANY; rank], name)
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
    let count = count(view, rank, element, name)?;
    // SAFETY: the caller guarantees the entries
    Ok(unsafe { entries(view, count) })
}

/// The int32 of an array of a batch.
///
/// # Safety
///
/// The conditions of [`array`].
pub(crate) unsafe fn ints<'a>(view: &View, rank: usize, name: &str) -> Result<I32Slice<'a>, Failure> {
    let count = count(view, rank, Element::I32, name)?;
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
    let count = view.count(&[Element::U32, Element::I32], &[ANY], name)?;
    view.check_writable(name)?;
    // SAFETY: the caller guarantees the entries; both types have all values
    Ok(unsafe { entries_mut(view, count) })
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
