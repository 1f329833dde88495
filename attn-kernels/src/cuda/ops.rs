//! The ops of [`attn_core::ops`] on device memory.
//!
//! A call checks its arguments and launches once. (A page list in host memory takes one launch per 448 pairs.) It does
//! not allocate or synchronise, so it can be captured. The first call compiles and loads the kernel, which fails under
//! a capture; [`prepare`] does that beforehand.

mod bits;
mod copy;
pub(super) mod custom;
mod indexer;
mod kv_transform;
mod merge;
mod module;
mod query_parts;
mod rows;
mod sample;
mod sampled_rows;
mod tensor_rows;
mod verify;
mod x_packed;

use attn_core::ops::{Array, ArrayMut, Number, OpError};
use attn_core::plan::PlanError;
use attn_core::tensor::{TensorError, TensorMut, TensorRef};

use super::{CudaError, Device};
use crate::launch::{OP_THREADS, Strided};

pub use crate::splice::Op;
pub use bits::{packbits, segment_packbits};
pub use copy::{Speed, copy_pages, copy_pages_between};
pub use indexer::{block_scores, index_scores, prepare_indexer, select_pages, select_tokens};
pub use kv_transform::CudaKvTransform;
pub use merge::{merge_state, merge_state_in_place, merge_states, scale_lse, sum};
pub use rows::{append, append_with_queries, gather};
pub use sample::{keep_filtered, prepare_sampling, sample};
pub(super) use tensor_rows::write_rows;
pub use verify::{prepare_verify, verify_chain, verify_tree};
pub use x_packed::{from_pages, to_pages};

/// Compiles and loads the kernels of ops, so that they can be captured.
///
/// # Errors
///
/// No cubin, or one that does not load.
pub fn prepare(device: &Device, ops: &[Op]) -> Result<(), CudaError> {
    ops.iter().try_for_each(|&op| module::prepare(device, op))
}

/// The address of a tensor, aligned to its elements unless it is empty.
fn address(name: &'static str, tensor: &TensorRef<'_>) -> Result<u64, CudaError> {
    let host = TensorError::Memory { tensor: name, got: "host", want: "device" };
    let (ptr, size) = (tensor.device_ptr().ok_or(host)?, tensor.dtype().size());
    let natural = tensor.shape().contains(&0) || ptr.is_multiple_of(size as u64);
    if natural { Ok(ptr) } else { Err(CudaError::Misaligned { array: name, ptr, size }) }
}

fn address_mut(name: &'static str, tensor: &TensorMut<'_>) -> Result<u64, CudaError> {
    address(name, &tensor.as_ref())
}

/// The address of an array, aligned to its elements.
fn numbers<T: Number>(array: &'static str, of: &Array<'_, T>) -> Result<u64, CudaError> {
    aligned(array, of.device_ptr(), size_of::<T>())
}

fn numbers_mut<T: Number>(array: &'static str, of: &ArrayMut<'_, T>) -> Result<u64, CudaError> {
    aligned(array, of.device_ptr(), size_of::<T>())
}

fn aligned(array: &'static str, ptr: Option<u64>, size: usize) -> Result<u64, CudaError> {
    let ptr = ptr.ok_or(OpError::Memory { array, got: "host", want: "device" })?;
    let natural = ptr.is_multiple_of(size as u64);
    if natural { Ok(ptr) } else { Err(CudaError::Misaligned { array, ptr, size }) }
}

/// The stride of a dimension; 0 for an extent of 1, whose stride is not used.
fn stride(shape: &[usize], strides: &[i64], dim: usize) -> i64 {
    if shape[dim] > 1 { strides[dim] } else { 0 }
}

/// A tensor of (tokens, heads, dim) or (pages, slots, heads, dim).
fn strided(name: &'static str, tensor: &TensorRef<'_>) -> Result<Strided, CudaError> {
    let rank = tensor.shape().len();
    let at = |dim| stride(tensor.shape(), tensor.strides(), dim);
    let page = if rank == 4 { at(0) } else { 0 };
    Ok(Strided { data: address(name, tensor)?, token: at(rank - 3), head: at(rank - 2), page })
}

/// CTAs for `count` units of work.
fn ctas(what: &'static str, count: u64, of_a_cta: u64) -> Result<u32, CudaError> {
    let ctas = count.div_ceil(of_a_cta.max(1));
    i32::try_from(ctas).map(|ctas| ctas as u32).map_err(|_| PlanError::TooMany { what, value: count }.into())
}

/// Whether rows of a tensor whose last dimension is contiguous begin at multiples of 16 bytes.
fn in_sixteens(ptr: u64, size: usize, strides: &[i64]) -> bool {
    let bytes = |stride: &i64| stride.unsigned_abs() * size as u64;
    ptr.is_multiple_of(16) && strides.iter().all(|stride| bytes(stride).is_multiple_of(16))
}

/// Rows that a warp transforms one after the other: `TRANSFORM_ROWS` of cuda/ops/transform.cuh, times the warps of
/// a CTA.
const TRANSFORM_ROWS: u64 = 4 * (OP_THREADS as u64 / 32);

/// Stands for the second parameter, which kernels of ops do not have.
const NOTHING: [u8; 16] = [0; 16];

#[cfg(test)]
mod tests {
    use attn_core::dtype::Dtype;

    use super::*;

    #[test]
    fn misaligned_elements_are_refused() {
        let at = |ptr, dtype, shape: &[usize]| {
            // SAFETY: it is never read.
            let tensor = unsafe { TensorRef::device(ptr, dtype, shape, &[1]) }.expect("a shape");
            address("lse", &tensor)
        };
        for (dtype, size) in [(Dtype::F32, 4), (Dtype::F16, 2), (Dtype::Bf16, 2), (Dtype::E4m3, 1)] {
            assert!(matches!(at(0x1000 + size as u64, dtype, &[3]), Ok(ptr) if ptr == 0x1000 + size as u64));
            for ptr in 0x1001..0x1000 + size as u64 {
                let error = at(ptr, dtype, &[3]).expect_err("between elements");
                let text = error.to_string();
                assert!(matches!(error, CudaError::Misaligned { array: "lse", .. }), "{text}");
                assert!(text.contains(&format!("{ptr:#x}")) && text.contains(&format!("multiple of {size}")), "{text}");
            }
        }
        assert!(at(0x1001, Dtype::F32, &[0]).is_ok(), "there is nothing there");
        let host = [0f32];
        let error = address("lse", &TensorRef::host(&host, &[1]).expect("fits")).expect_err("on the host");
        assert!(matches!(error, CudaError::Tensor(TensorError::Memory { tensor: "lse", .. })));
    }
}
