//! Launches of kernels through the driver: the last step of a run or an op. Ordering comes before (`uses`).

use std::ffi::c_void;

use cudarc::driver::{result, sys::CUfunction};

use crate::cuda::{CudaError, CudaStream};

/// Launches `kernel(const __grid_constant__ P, const __grid_constant__ Variant)`, unless the grid is empty.
///
/// # Safety
///
/// The function has this signature, or P begins with its first parameter; `variant` holds at least as many bytes as its
/// second parameter, and all memory that `params` points to is valid.
pub(in crate::cuda) unsafe fn launch_kernel<P>(
    function: CUfunction,
    grid: (u32, u32),
    threads: u32,
    smem: u32,
    stream: &CudaStream,
    params: &P,
    variant: &[u8],
) -> Result<(), CudaError> {
    let mut arguments = [argument(params), variant.as_ptr().cast_mut().cast()];
    // SAFETY: by the caller's promise.
    unsafe { launch_with(function, grid, threads, smem, stream, &mut arguments) }
}

/// The address of an argument, as the driver takes it.
pub(in crate::cuda) fn argument<P>(params: &P) -> *mut c_void {
    std::ptr::from_ref(params).cast_mut().cast()
}

/// Launches a kernel with any arguments, which the driver copies before it returns, unless the grid is empty.
///
/// # Safety
///
/// The function takes arguments of these types, and all memory that they point to is valid.
pub(in crate::cuda) unsafe fn launch_with(
    function: CUfunction,
    grid: (u32, u32),
    threads: u32,
    smem: u32,
    stream: &CudaStream,
    arguments: &mut [*mut c_void],
) -> Result<(), CudaError> {
    if grid.0 == 0 || grid.1 == 0 {
        return Ok(());
    }
    // SAFETY: by the caller's promise.
    unsafe { result::launch_kernel(function, (grid.0, grid.1, 1), (threads, 1, 1), smem, stream.raw(), arguments) }
        .map_err(|e| CudaError::driver("launch a kernel", e))
}
