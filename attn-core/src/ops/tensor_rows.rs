//! Writes rows of a parameter tensor in place: the new tokens of a table that grows.

use super::{Array, ArrayMut, OpError, check};
use crate::Variant;
use crate::expr::{ContentError, TensorContent, TensorSlot};
use crate::lang::desc::Elem;

/// Rows of a parameter tensor, and the indices to write them to.
#[derive(Debug)]
pub struct TensorRows<'a> {
    /// The rows, one after the other. A row is an element, or all elements along the last axis, or along the last two,
    /// and so on; which of them follows from the number of elements.
    pub content: TensorContent<'a>,
    /// The index of each row, counted in rows from the start of the tensor; below 0 for a row that is not written.
    pub indices: Array<'a, i32>,
    /// A word in device memory, to which a kernel adds the number of rows whose index is past the end of the tensor. On
    /// the CPU such a row is an error instead.
    pub status: Option<ArrayMut<'a, u32>>,
}

impl<'a> TensorRows<'a> {
    /// Rows at these indices.
    #[must_use]
    pub fn at(indices: Array<'a, i32>, content: TensorContent<'a>) -> Self {
        TensorRows { content, indices, status: None }
    }
}

/// Rows of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsOfTensor {
    /// Bytes of a row.
    pub bytes: usize,
    /// Rows that the tensor has.
    pub rows: usize,
}

/// Checks everything except the indices.
///
/// # Errors
///
/// [`ContentError`]: elements of another type, or rows of another length.
pub fn check(slot: &TensorSlot, rows: &TensorRows<'_>) -> Result<RowsOfTensor, OpError> {
    slot.check_elem(&rows.content)?;
    check::status(rows.status.as_ref())?;
    let (count, got) = (rows.indices.len(), rows.content.byte_len());
    if count == 0 && got == 0 {
        return Ok(RowsOfTensor { bytes: 0, rows: 0 });
    }
    let misfit = || ContentError::Rows { name: slot.name.to_owned(), shape: slot.shape.clone(), rows: count, got };
    let bytes = got.checked_div(count).filter(|bytes| bytes * count == got && *bytes > 0).ok_or_else(misfit)?;
    // the bits of an element
    let bits = match slot.elem {
        Elem::Bits => 1,
        _ => 8 * slot.bytes / slot.shape.iter().product::<i64>().max(1) as usize,
    };
    let mut trailing = slot.shape.iter().rev().scan(bits, |row, &extent| {
        *row *= extent as usize;
        Some(*row)
    });
    // a row of bits that begins or ends within a byte has no whole bytes, and is refused
    let is_row = 8 * bytes == bits || trailing.any(|row| row == 8 * bytes);
    if !is_row || !slot.bytes.is_multiple_of(bytes) {
        return Err(misfit().into());
    }
    Ok(RowsOfTensor { bytes, rows: slot.bytes / bytes })
}

/// Writes rows of a tensor in this handle of the variant only.
///
/// # Errors
///
/// An index past the end of the tensor, device memory, values that break a `#[require]`; the errors of [`check()`].
/// Nothing is written then.
pub fn set_rows(variant: &mut Variant, slot: &TensorSlot, rows: &TensorRows<'_>) -> Result<(), OpError> {
    let RowsOfTensor { rows: most, .. } = check(slot, rows)?;
    let indices = rows.indices.on_host("indices")?;
    let past = |index: &&i32| usize::try_from(**index).is_ok_and(|index| index >= most);
    if let Some(&row) = indices.iter().find(past) {
        return Err(ContentError::Row { name: slot.name.to_owned(), row, rows: most }.into());
    }
    variant.edit_content(slot, &rows.content, |elements, given| {
        let each = given.len().checked_div(indices.len()).unwrap_or(0);
        for (index, row) in indices.iter().zip(given.chunks(each.max(1))) {
            if let Ok(index) = usize::try_from(*index) {
                elements[index * each..(index + 1) * each].clone_from_slice(row);
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
