//! Offsets into row-major tensors.

/// The offset of an index in a row-major tensor, in elements; each index is clamped into its extent. `None` for an
/// empty tensor.
pub(super) fn flat_index<const RANK: usize>(at: [i32; RANK], shape: &[i64; RANK]) -> Option<usize> {
    let mut offset = 0i64;
    for (i, &n) in at.into_iter().zip(shape) {
        if n == 0 {
            return None;
        }
        offset = offset * n + i64::from(i).min(n - 1).max(0);
    }
    usize::try_from(offset).ok()
}
