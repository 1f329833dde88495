//! Bools into bits.

use attn_core::{
    ops::{Array, ArrayMut, BitOrder, bits},
    plan::PlanError,
};

use super::{NOTHING, Op, ctas, module, numbers, numbers_mut};
use crate::{
    cuda::{CudaError, Stream, run::launch},
    launch::{BitsParams, OP_THREADS},
};

/// The most CTAs of a segment.
const SEGMENT_CTAS: u64 = 64;

/// As [`attn_core::ops::bits::packbits`].
///
/// # Errors
///
/// Too little room, memory of the host, no kernel.
pub fn packbits(
    stream: &Stream,
    bools: &Array<'_, u8>,
    order: BitOrder,
    out: &ArrayMut<'_, u8>,
) -> Result<(), CudaError> {
    bits::check(bools, out)?;
    let params = params(bools, order, out)?;
    let _current = stream.device().make_current()?;
    let function = module::kernel(stream, Op::Bits, 0)?;
    let grid = ctas("bools", bools.len() as u64, 16 * u64::from(OP_THREADS))?;
    // SAFETY: whoever made the arrays promised that they are there, and their lengths are checked.
    unsafe { launch(function, (grid, 1), OP_THREADS, 0, stream, &params, &NOTHING) }
}

/// As [`attn_core::ops::bits::segments`]. Of prefix sums that are not sound, nothing outside of the bools is read, and nothing outside of the
/// room written.
///
/// # Errors
///
/// Arrays that do not go together, memory of the host, no kernel; more than 65535 segments.
pub fn segment_packbits(
    stream: &Stream,
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
    // bools of a CTA, if segments are alike
    let each = (bools.len() / segments.max(1)) as u64;
    let grid = each.div_ceil(32 * u64::from(OP_THREADS)).clamp(1, SEGMENT_CTAS);
    // SAFETY: whoever made the arrays promised that they are there; the kernel checks what they say.
    unsafe { launch(function, (grid as u32, segments.max(1) as u32), OP_THREADS, 0, stream, &params, &NOTHING) }
}

fn params(bools: &Array<'_, u8>, order: BitOrder, out: &ArrayMut<'_, u8>) -> Result<BitsParams, CudaError> {
    Ok(BitsParams {
        bools: numbers("bools", bools)?,
        out: numbers_mut("out", out)?,
        count: bools.len() as i64,
        room: out.len() as i64,
        big: i32::from(order == BitOrder::Big),
        ..BitsParams::default()
    })
}
