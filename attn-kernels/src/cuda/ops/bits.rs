//! Bools packed into bits.

use attn_core::ops::{Array, ArrayMut, BitOrder, bits};
use attn_core::plan::PlanError;

use super::launch::OpLaunch;
use super::{Op, ctas};
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
    let mut launch = OpLaunch::default();
    let params = params(&mut launch, bools, order, out)?;
    let kernel = launch.ordered(stream, Op::Bits, 0)?;
    let grid = ctas("bools", bools.len() as u64, 16 * u64::from(OP_THREADS))?;
    // SAFETY: the caller promised the memory of the arrays when it made them, and their lengths are checked.
    unsafe { kernel.launch((grid, 1), OP_THREADS, 0, &params) }
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
    let mut launch = OpLaunch::default();
    let params = BitsParams {
        indptr: launch.read("indptr", indptr)?,
        out_indptr: launch.write("out_indptr", out_indptr)?,
        segments: segments as i32,
        ..params(&mut launch, bools, order, out)?
    };
    let kernel = launch.ordered(stream, Op::Bits, 1)?;
    // bools of a segment on average
    let each = (bools.len() / segments.max(1)) as u64;
    let grid = each.div_ceil(32 * u64::from(OP_THREADS)).clamp(1, SEGMENT_CTAS);
    // SAFETY: the caller promised the memory of the arrays when it made them; the kernel checks what they say.
    unsafe { kernel.launch((grid as u32, segments.max(1) as u32), OP_THREADS, 0, &params) }
}

fn params<'a>(
    launch: &mut OpLaunch<'a>,
    bools: &Array<'a, u8>,
    order: BitOrder,
    out: &ArrayMut<'a, u8>,
) -> Result<BitsParams, CudaError> {
    Ok(BitsParams {
        bools: launch.read("bools", bools)?,
        out: launch.write("out", out)?,
        count: bools.len() as i64,
        capacity: out.len() as i64,
        big_endian: i32::from(order == BitOrder::Big),
        ..BitsParams::default()
    })
}
