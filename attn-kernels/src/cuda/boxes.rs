//! Tensors as prefill in warpgroups copies them: in boxes of 64 elements of some rows, which the hardware fetches and stores (TMA).

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
    /// Those of keys or values, or of outputs, whose rows have `dim` elements.
    pub(super) fn of(tensor: &TensorRef<'_>, dim: u32, heads: u32) -> Self {
        let shape = tensor.shape();
        let (pages, tokens) = if shape.len() == 4 { (shape[0], shape[1]) } else { (1, shape[0]) };
        Extents { dim, tokens: tokens as u64, heads, pages: pages as u64 }
    }
}

/// Whether a stride, in elements, can be told to the hardware.
fn is_near(stride: i64) -> bool {
    u64::try_from(stride).is_ok_and(|stride| stride < STRIDE_END / 2)
}

/// Keys of a box where keys are in pages of so many, `tensors` of them; 0: a page is not made of boxes.
pub(super) fn rows_of_pages(cell: &Cell, page_size: u32, tensors: [&Strided; 2]) -> u32 {
    let common = |mut a: u32, mut b: u32| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let near = |tensor: &&Strided| [tensor.token, tensor.head, tensor.page].into_iter().all(is_near);
    let rows = common(page_size, cell.tile_keys);
    if rows.is_multiple_of(PATTERN_ROWS) && tensors.iter().all(near) { rows } else { 0 }
}

/// Rows of outputs that a warp stores, and of queries that a warpgroup has, whose tiles begin and end between tokens if these do.
const OUTPUT_ROWS: u32 = 16;
const WARPGROUP_ROWS: u32 = 64;

/// Packed rows as boxes: a KV head's `group` query heads, and as many tokens as make some rows.
pub(super) struct PackedRows {
    pub(super) group: u32,
    /// Of queries or outputs.
    pub(super) extents: Extents,
}

impl PackedRows {
    /// A tile of queries; `None` where it is not a box.
    pub(super) fn queries(&self, cell: &Cell, q: &Strided) -> Result<Option<TensorMap>, CudaError> {
        self.boxes(q, WARPGROUP_ROWS, cell.tile_rows)
    }

    /// A warp's outputs; `None` where they are not a box.
    pub(super) fn outputs(&self, o: &Strided) -> Result<Option<TensorMap>, CudaError> {
        self.boxes(o, OUTPUT_ROWS, OUTPUT_ROWS)
    }

    fn boxes(&self, tensor: &Strided, whole: u32, rows: u32) -> Result<Option<TensorMap>, CudaError> {
        let Extents { dim, tokens, heads, pages } = self.extents;
        // a row that stands for several, with a stride of 0, is read one by one
        let near = |stride: i64| stride > 0 && is_near(stride);
        if !whole.is_multiple_of(self.group) || !near(tensor.token) || !near(tensor.head) {
            return Ok(None);
        }
        let sizes = [dim.into(), heads.into(), tokens, pages];
        encode(tensor.data, sizes, [tensor.head, tensor.token, tensor.page], [self.group, rows / self.group]).map(Some)
    }
}

/// The boxes of keys or values, `rows` keys each. An empty tensor has none.
pub(super) fn tensor_map(tensor: &Strided, extents: Extents, rows: u32) -> Result<TensorMap, CudaError> {
    let Extents { dim, tokens, heads, pages } = extents;
    encode(tensor.data, [dim.into(), tokens, heads.into(), pages], [tensor.token, tensor.head, tensor.page], [rows, 1])
}

/// Boxes of 64 elements, and so many of the two dimensions after.
fn encode(data: u64, sizes: [u64; 4], strides: [i64; 3], box_sizes: [u32; 2]) -> Result<TensorMap, CudaError> {
    if sizes.contains(&0) {
        return Ok(TensorMap::default());
    }
    // the stride of an extent of 1 is never taken, but has to be one; that of what is repeated, 0, is the driver's to take or to refuse
    let bytes = |i: usize| if sizes[i + 1] > 1 { strides[i].unsigned_abs() * 2 } else { 16 };
    let strides = [bytes(0), bytes(1), bytes(2)];
    let (box_sizes, steps) = ([64, box_sizes[0], box_sizes[1], 1], [1; 4]);
    let mut map = MaybeUninit::<sys::CUtensorMap>::zeroed();
    // SAFETY: the arrays have as many elements as the rank says (strides one fewer), and the output is valid for writes. The driver checks the rest.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            map.as_mut_ptr(),
            sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
            sizes.len() as u32,
            data as *mut _,
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
    result.result().map_err(|e| CudaError::driver("describe a tensor in boxes", e))?;
    // SAFETY: zeros are a value of this type, and the driver wrote another over them.
    Ok(TensorMap { words: unsafe { map.assume_init() }.opaque })
}
