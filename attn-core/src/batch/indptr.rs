//! Prefix sums of lengths.

use super::{error::BatchError, limits::MAX_TOKENS};

/// Prefix sums of lengths, starting at 0: `[2, 3]` gives `[0, 2, 5]`.
///
/// # Errors
///
/// [`BatchError::LengthsTooLong`] when the sum does not fit an `i32`.
pub fn indptr(lens: &[u32]) -> Result<Vec<i32>, BatchError> {
    let mut sums = Vec::with_capacity(lens.len() + 1);
    let mut total = 0u64;
    sums.push(0);
    for (index, &len) in lens.iter().enumerate() {
        total += u64::from(len);
        sums.push(i32::try_from(total).map_err(|_| BatchError::LengthsTooLong { index, total })?);
    }
    Ok(sums)
}

pub(super) fn check_indptr(array: &'static str, indptr: &[i32]) -> Result<(), BatchError> {
    match indptr.first() {
        None => return Err(BatchError::EmptyIndptr { array }),
        Some(0) => {}
        Some(&first) => return Err(BatchError::IndptrStart { array, first }),
    }
    match indptr.windows(2).position(|ends| ends[1] < ends[0]) {
        None => Ok(()),
        Some(i) => Err(BatchError::IndptrNotMonotone { array, index: i + 1, value: indptr[i + 1], before: indptr[i] }),
    }
}

/// Checks prefix sums of tokens.
pub(super) fn check_tokens(array: &'static str, indptr: &[i32]) -> Result<(), BatchError> {
    check_indptr(array, indptr)?;
    match indptr.last() {
        Some(&total) if total > MAX_TOKENS => Err(BatchError::TooManyTokens { array, total }),
        _ => Ok(()),
    }
}

pub(super) fn check_len(array: &'static str, len: usize, other: &'static str, want: usize) -> Result<(), BatchError> {
    if len == want { Ok(()) } else { Err(BatchError::LengthMismatch { array, len, other, want }) }
}
