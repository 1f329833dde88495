//! Bools packed into bits.

use attn_core::ops::{Array, ArrayMut, BitOrder, bits};
use attn_core::plan::PlanError;

use super::{NOTHING, Op, ctas, module, numbers, numbers_mut};
use crate::cuda::driver::launch_kernel::launch_kernel;
use crate::cuda::driver::order::order as order_uses;
use crate::cuda::driver::uses::Access::{Read, Write};
use crate::cuda::{CudaError, CudaStream};
use crate::launch::{BitsParams, OP_THREADS};

/// The most CTAs of a segment.
const SEGMENT_CTAS: u64 = 64;

/// Launches the kernel of [`attn_core::ops::bits::packbits`], which defines the result.
///
/// # Errors
///
/// Too little capacity, memory of the host, no kernel.
pub fn packbits(
    stream: &CudaStream,
    bools: &Array<'_, u8>,
    order: BitOrder,
    out: &ArrayMut<'_, u8>,
) -> Result<(), CudaError> {
    bits::check(bools, out)?;
    let params = params(bools, order, out)?;
    let _current = stream.device().make_current()?;
    let function = module::kernel(stream, Op::Bits, 0)?;
    let _submission = stream.submission();
    order_uses(stream, Read, [("bools", bools.owner())])?;
    order_uses(stream, Write, [("out", out.owner())])?;
    let grid = ctas("bools", bools.len() as u64, 16 * u64::from(OP_THREADS))?;
    // SAFETY: the caller promised the memory of the arrays when it made them, and their lengths are checked.
    unsafe { launch_kernel(function, (grid, 1), OP_THREADS, 0, stream, &params, &NOTHING) }
}

/// Launches the kernel of [`attn_core::ops::bits::segments`], which defines the result. With prefix sums that are not
/// sound, the kernel still reads only bools and writes only within the output.
///
/// # Errors
///
/// Arrays that do not fit each other, memory of the host, no kernel; more than 65535 segments.
pub fn segment_packbits(
    stream: &CudaStream,
    bools: &Array<'_, u8>,
    indptr: &Array<'_, i32>,
    order: BitOrder,
    out: &ArrayMut<'_, u8>,
    out_indptr: &ArrayMut<'_, i32>,
) -> Result<(), CudaError> {
    bits::check_segments(bools, indptr, out, out_indptr)?;
    let segments = indptr.len() - 1;
    if segments > 65535 {
        return Err(PlanError::TooMany { what: "segments", value: segments as u64 }.into());
    }
    let params = BitsParams {
        indptr: numbers("indptr", indptr)?,
        out_indptr: numbers_mut("out_indptr", out_indptr)?,
        segments: segments as i32,
        ..params(bools, order, out)?
    };
    let _current = stream.device().make_current()?;
    let function = module::kernel(stream, Op::Bits, 1)?;
    let _submission = stream.submission();
    order_uses(stream, Read, [("bools", bools.owner()), ("indptr", indptr.owner())])?;
    order_uses(stream, Write, [("out", out.owner()), ("out_indptr", out_indptr.owner())])?;
    // bools of a segment on average
    let each = (bools.len() / segments.max(1)) as u64;
    let grid = each.div_ceil(32 * u64::from(OP_THREADS)).clamp(1, SEGMENT_CTAS);
    // SAFETY: the caller promised the memory of the arrays when it made them; the kernel checks what they say.
    unsafe { launch_kernel(function, (grid as u32, segments.max(1) as u32), OP_THREADS, 0, stream, &params, &NOTHING) }
}

fn params(bools: &Array<'_, u8>, order: BitOrder, out: &ArrayMut<'_, u8>) -> Result<BitsParams, CudaError> {
    Ok(BitsParams {
        bools: numbers("bools", bools)?,
        out: numbers_mut("out", out)?,
        count: bools.len() as i64,
        capacity: out.len() as i64,
        big_endian: i32::from(order == BitOrder::Big),
        ..BitsParams::default()
    })
}
