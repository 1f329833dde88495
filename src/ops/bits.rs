//! Packing masks into bits.

use attn_core::ops::bits;
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use super::{Array, ArrayMut, BitOrder};
use crate::{Error, Stream, backend::try_backend};

/// Packs bools (bytes; nonzero is true) into bits, eight a byte. The last byte is padded with 0. Bytes of `out` past
/// those needed stay as they are.
///
/// # Errors
///
/// Too small an output, or arrays in other memory than the stream; on CUDA no kernel.
pub fn packbits(
    stream: &Stream,
    bools: &Array<'_, u8>,
    order: BitOrder,
    out: &mut ArrayMut<'_, u8>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => bits::packbits(bools, order, out),
        Cuda(stream) => cuda::ops::packbits(stream, bools, order, out),
    })
}

/// Packs consecutive segments of bools, with prefix sums `indptr`. The bits of each segment begin at a byte, and
/// `out_indptr` receives the prefix sums of bytes. `out` must hold the worst case, `(bools + 7 segments) / 8` bytes.
///
/// This is the format of [`CustomMask`](crate::stock::CustomMask), with bits in [`BitOrder::Little`]. Its offsets count
/// bits: they are eight times those of `out_indptr`. On the host, [`pack_segments`](super::pack_segments) does the
/// same:
///
/// ```
/// use attn::{lang::{Bits, Tensor1}, ops, stock::CustomMask};
///
/// // two requests: 2 queries of 3 keys, and 1 query of 5
/// let mask = [true, false, false, true, true, false, true, true, true, true, false];
/// let (bits, bytes) = ops::pack_segments(&mask, &[0, 6, 11], ops::BitOrder::Little)?;
/// let custom = CustomMask {
///     size: 8 * bits.len() as i32,
///     bits: Tensor1::from_iter(bits.iter().map(|&byte| Bits(byte))),
///     offset: Tensor1::from_iter(bytes[..2].iter().map(|byte| 8 * byte)),
/// };
/// # let _ = custom;
/// # Ok::<(), attn::Error>(())
/// ```
///
/// # Errors
///
/// Arrays of contradicting lengths, too small an output, or other memory than the stream; on the CPU an `indptr` that
/// decreases; on CUDA no kernel.
pub fn segment_packbits(
    stream: &Stream,
    bools: &Array<'_, u8>,
    indptr: &Array<'_, i32>,
    order: BitOrder,
    out: &mut ArrayMut<'_, u8>,
    out_indptr: &mut ArrayMut<'_, i32>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => bits::segments(bools, indptr, order, out, out_indptr),
        Cuda(stream) => cuda::ops::segment_packbits(stream, bools, indptr, order, out, out_indptr),
    })
}
