//! Writes rows of parameter tensors.

use attn_core::expr::TensorSlot;
use attn_core::ops::tensor_rows::check;
use attn_core::ops::{OpError, TensorRows};

use super::launch::OpLaunch;
use super::{Op, ctas};
use crate::cuda::driver::uses::Access::Write;
use crate::cuda::{CudaBuffer, CudaError, CudaStream};
use crate::launch::{FastDiv, OP_THREADS, TensorRowsParams};

/// Bytes of a word of each kernel.
const WORDS: [usize; 4] = [16, 4, 2, 1];
/// The most CTAs.
const CTAS: u64 = 1 << 16;

/// Launches the kernel of [`attn_core::ops::tensor_rows::set_rows`], which defines the result, over the buffer of the
/// tensor.
pub(in crate::cuda) fn write_rows(
    stream: &CudaStream,
    buffer: &CudaBuffer,
    slot: &TensorSlot,
    rows: &TensorRows<'_>,
) -> Result<(), CudaError> {
    let of = check(slot, rows)?;
    let count = rows.indices.len();
    if count == 0 {
        return Ok(());
    }
    let host = OpError::Memory { array: "content", got: "host", want: "device" };
    let from = rows.content.device_ptr().ok_or(host)?;
    let fits = |word: &usize| of.bytes.is_multiple_of(*word) && from.is_multiple_of(*word as u64);
    let number = WORDS.iter().position(fits).unwrap_or(WORDS.len() - 1);
    let words = u32::try_from(of.bytes / WORDS[number]).unwrap_or(u32::MAX);
    let mut launch = OpLaunch::default();
    let params = TensorRowsParams {
        from,
        to: buffer.ptr(),
        indices: launch.read("indices", &rows.indices)?,
        status: launch.write_if("status", rows.status.as_ref())?,
        rows: count as i64,
        extent: of.rows as i64,
        words: FastDiv::new(words),
        pad: 0,
    };
    let grid = ctas("rows", (count as u64 * u64::from(words)).min(CTAS * u64::from(OP_THREADS)), OP_THREADS.into())?;
    let kernel = launch.ordered(stream, Op::TensorRows, number)?;
    buffer.uses().order(stream.state(), Write)?;
    // SAFETY: the caller promised the memory of rows, indices and status when it made them, and their lengths are
    // checked; the kernel writes within the tensor, whose bytes the buffer has.
    unsafe { kernel.launch((grid, 1), OP_THREADS, 0, &params) }
}
