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
mod launch;
mod merge;
mod module;
mod query_parts;
mod rows;
mod sample;
mod sampled_rows;
mod tensor_rows;
mod verify;
mod x_packed;

use attn_core::plan::PlanError;

use super::{CudaError, Device};
use crate::launch::OP_THREADS;

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

/// The stride of a dimension; 0 for an extent of 1, whose stride is not used.
fn stride(shape: &[usize], strides: &[i64], dim: usize) -> i64 {
    if shape[dim] > 1 { strides[dim] } else { 0 }
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

/// Rows that a warp transforms one after the other: `TRANSFORM_ROWS` of cuda/ops/transform_rows.cuh, times the warps of
/// a CTA.
const TRANSFORM_ROWS: u64 = 4 * (OP_THREADS as u64 / 32);
