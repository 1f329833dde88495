//! Rows as the element-wise kernels take them: their grids, and their element types.

use attn::{DeviceBuffer, Dtype, cuda::Grid};

use crate::Error;

/// Elements of a thread.
pub(super) const VECTOR: usize = 8;

/// A CTA for each row and each `threads` vectors of it.
pub(super) fn grid(rows: usize, width: usize, threads: usize) -> Result<Grid, Error> {
    let most = i32::MAX as usize;
    if !width.is_multiple_of(VECTOR) || width == 0 || width > most || rows > most {
        return Err(Error::Width { width, most, multiple: VECTOR });
    }
    let vectors = width / VECTOR;
    let threads = vectors.next_multiple_of(32).min(threads);
    let ctas = (rows as u32, vectors.div_ceil(threads) as u32);
    Ok(Grid { ctas, threads: threads as u32, smem: 0 })
}

/// The place of the entry for rows of a buffer's type.
pub(super) fn of_rows(buffer: &DeviceBuffer) -> Result<usize, Error> {
    if buffer.dtype() == Dtype::F32 { Ok(1) } else { of_f16(buffer).map(|_| 0) }
}

/// The buffer, if it is of f16.
pub(super) fn of_f16(buffer: &DeviceBuffer) -> Result<&DeviceBuffer, Error> {
    same(buffer.dtype(), Dtype::F16).map(|()| buffer)
}

pub(super) fn same(have: Dtype, want: Dtype) -> Result<(), Error> {
    let (have_name, want_name) = (format!("elements of {have}"), want.to_string());
    if have == want { Ok(()) } else { Err(attn::Error::Elements { have: have_name, want: want_name }.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_covered_by_vectors() {
        let of = |rows, width, threads| grid(rows, width, threads).map(|grid| (grid.ctas, grid.threads));
        assert_eq!(of(3, 576, 1024).expect("72 vectors"), ((3, 1), 96));
        assert_eq!(of(3, 1536, 128).expect("192 vectors"), ((3, 2), 128));
        assert_eq!(of(1, 8200, 1024).expect("1025 vectors").0, (1, 2));
        assert!(matches!(of(1, 12, 128), Err(Error::Width { width: 12, .. })));
    }
}
