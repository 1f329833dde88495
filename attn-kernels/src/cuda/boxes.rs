//! Tensors as prefill in warpgroups copies them: in boxes of 64 elements of some rows, which the hardware fetches (TMA).

use std::mem::MaybeUninit;

use attn_core::tensor::TensorRef;
use cudarc::driver::sys;

use super::CudaError;
use crate::{
    cell::Cell,
    launch::{Strided, TensorMap},
};

/// Rows that a swizzled pattern repeats after: boxes are of whole patterns.
const PATTERN_ROWS: u32 = 8;
/// What a stride between pages is below, in bytes; others are below 2^31.
const STRIDE_END: u64 = 1 << 40;

/// A tensor of 16-bit elements on the device: how much there is of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub(super) dim: u32,
    /// Tokens, or slots of a page.
    pub(super) tokens: u64,
    pub(super) heads: u32,
    /// 1, of what is not in pages.
    pub(super) pages: u64,
}

impl Extents {
    /// Those of keys or values, whose rows have `dim` elements.
    pub(super) fn of(tensor: &TensorRef<'_>, dim: u32, heads: u32) -> Self {
        let shape = tensor.shape();
        let (pages, tokens) = if shape.len() == 4 { (shape[0], shape[1]) } else { (1, shape[0]) };
        Extents { dim, tokens: tokens as u64, heads, pages: pages as u64 }
    }
}

/// Keys of a box where keys are in pages of so many, `tensors` of them; 0: a page is not made of boxes.
pub(super) fn rows_of_pages(cell: &Cell, page_size: u32, tensors: [&Strided; 2]) -> u32 {
    let common = |mut a: u32, mut b: u32| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let near = |tensor: &&Strided| {
        let of = |stride: i64| u64::try_from(stride).is_ok_and(|stride| stride < STRIDE_END / 2);
        of(tensor.token) && of(tensor.head) && of(tensor.page)
    };
    let rows = common(page_size, cell.tile_keys);
    if rows.is_multiple_of(PATTERN_ROWS) && tensors.iter().all(near) { rows } else { 0 }
}

/// The boxes of a tensor, `rows` keys each. An empty tensor has none.
pub(super) fn tensor_map(tensor: &Strided, extents: Extents, rows: u32) -> Result<TensorMap, CudaError> {
    let Extents { dim, tokens, heads, pages } = extents;
    if tokens == 0 || heads == 0 || pages == 0 {
        return Ok(TensorMap::default());
    }
    // the stride of an extent of 1 is never taken, but has to be one; that of what is repeated, 0, is the driver's to take or to refuse
    let bytes = |stride: i64, extent: u64| if extent > 1 { stride.unsigned_abs() * 2 } else { 16 };
    let sizes = [dim.into(), tokens, heads.into(), pages];
    let strides = [bytes(tensor.token, tokens), bytes(tensor.head, heads.into()), bytes(tensor.page, pages)];
    let (box_sizes, steps) = ([64, rows, 1, 1], [1; 4]);
    let mut map = MaybeUninit::<sys::CUtensorMap>::zeroed();
    // SAFETY: the arrays have as many elements as the rank says (strides one fewer), and the output is valid for writes. The driver checks the rest.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            map.as_mut_ptr(),
            sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
            sizes.len() as u32,
            tensor.data as *mut _,
            sizes.as_ptr(),
            strides.as_ptr(),
            box_sizes.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    result.result().map_err(|e| CudaError::driver("describe keys and values in boxes", e))?;
    // SAFETY: zeros are a value of this type, and the driver wrote another over them.
    Ok(TensorMap { words: unsafe { map.assume_init() }.opaque })
}
