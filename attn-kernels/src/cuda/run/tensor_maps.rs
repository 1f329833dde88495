//! TMA tensor maps for sm90 prefill. A box has 64 elements of several rows.

use std::mem::MaybeUninit;

use attn_core::tensor::TensorRef;
use cudarc::driver::sys;

use crate::cuda::CudaError;
use crate::kernel_traits::KernelTraits;
use crate::launch::{Strided, TensorMap};

/// Strides of tensor maps are below this many bytes.
const STRIDE_END: u64 = 1 << 40;

/// The extents of a tensor of 16-bit elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub(super) dim: u32,
    /// Tokens, or slots of a page.
    pub(super) tokens: u64,
    pub(super) heads: u32,
    /// 1 for a tensor without pages.
    pub(super) pages: u64,
}

impl Extents {
    /// The extents of keys, values or outputs whose rows have `dim` elements.
    pub(super) fn of(tensor: &TensorRef<'_>, dim: u32, heads: u32) -> Self {
        let shape = tensor.shape();
        let (pages, tokens) = if shape.len() == 4 { (shape[0], shape[1]) } else { (1, shape[0]) };
        Extents { dim, tokens: tokens as u64, heads, pages: pages as u64 }
    }
}

/// Whether a tensor map can express a stride, in elements.
fn is_near(stride: i64) -> bool {
    u64::try_from(stride).is_ok_and(|stride| stride < STRIDE_END / 2)
}

/// Whether tensor maps can express keys or values.
pub(super) fn is_mappable(tensor: &Strided) -> bool {
    [tensor.token, tensor.head, tensor.page].into_iter().all(is_near)
}

/// Rows of O that a warp stores. Where a group of query heads divides them, boxes have whole tokens; so they have of Q
/// where it divides the first of [`KernelTraits::query_rows`].
const OUTPUT_ROWS: u32 = 16;

/// PackGQA rows as TMA boxes: the `group` query heads of a KV head by some tokens.
pub(super) struct PackedRows {
    pub(super) group: u32,
    /// The extents of Q or O.
    pub(super) extents: Extents,
}

impl PackedRows {
    /// The map for loads of Q tiles; `None` if a box cannot express a Q tile.
    pub(super) fn queries(&self, traits: &KernelTraits, q: &Strided) -> Result<Option<TensorMap>, CudaError> {
        let [whole, rows] = traits.facts().query_rows(self.group);
        self.boxes(q, whole, rows)
    }

    /// The map for stores of a warp's O rows; `None` if a box cannot express them.
    pub(super) fn outputs(&self, o: &Strided) -> Result<Option<TensorMap>, CudaError> {
        self.boxes(o, OUTPUT_ROWS, OUTPUT_ROWS)
    }

    fn boxes(&self, tensor: &Strided, whole: u32, rows: u32) -> Result<Option<TensorMap>, CudaError> {
        let Extents { dim, tokens, heads, pages } = self.extents;
        // TMA does not take broadcast rows, whose stride is 0
        let near = |stride: i64| stride > 0 && is_near(stride);
        if !whole.is_multiple_of(self.group) || !near(tensor.token) || !near(tensor.head) {
            return Ok(None);
        }
        let sizes = [dim.into(), heads.into(), tokens, pages];
        encode(tensor.data, sizes, [tensor.head, tensor.token, tensor.page], [self.group, rows / self.group]).map(Some)
    }
}

/// The map for loads of K or V in boxes of `rows` keys. An empty tensor, and boxes without keys, have a zero map.
pub(super) fn kv_map(tensor: &Strided, extents: Extents, rows: u32) -> Result<TensorMap, CudaError> {
    if rows == 0 {
        return Ok(TensorMap::default());
    }
    let Extents { dim, tokens, heads, pages } = extents;
    encode(tensor.data, [dim.into(), tokens, heads.into(), pages], [tensor.token, tensor.head, tensor.page], [rows, 1])
}

/// Encodes a map with boxes of 64 elements by `box_sizes` of the next two dimensions.
fn encode(data: u64, sizes: [u64; 4], strides: [i64; 3], box_sizes: [u32; 2]) -> Result<TensorMap, CudaError> {
    if sizes.contains(&0) {
        return Ok(TensorMap::default());
    }
    // the stride of an extent of 1 is not used, but has to be valid; the driver accepts or refuses a stride of 0
    let bytes = |i: usize| if sizes[i + 1] > 1 { strides[i].unsigned_abs() * 2 } else { 16 };
    let strides = [bytes(0), bytes(1), bytes(2)];
    let (box_sizes, steps) = ([64, box_sizes[0], box_sizes[1], 1], [1; 4]);
    let mut map = MaybeUninit::<sys::CUtensorMap>::zeroed();
    // SAFETY: the arrays have as many elements as the rank says (strides one fewer), and the output is valid for
    // writes. The driver checks the rest.
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
