//! Launches of kernels.

use std::{ffi::c_void, ptr};

use cudarc::driver::{
    result,
    sys::{
        self, CUfunction, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue,
        CUlaunchAttributeValue_union__bindgen_ty_1, CUlaunchConfig,
    },
};

use super::{CudaError, CudaStream};

/// Launches `kernel(const __grid_constant__ P, const __grid_constant__ Variant)`, unless the grid is empty.
///
/// # Safety
///
/// The function has this signature, or P begins with its first parameter; `variant` holds at least as many bytes as its
/// second parameter, and all memory that `params` points to is valid.
pub(super) unsafe fn launch_kernel<P>(
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
pub(super) fn argument<P>(params: &P) -> *mut c_void {
    std::ptr::from_ref(params).cast_mut().cast()
}

/// As [`launch_with`], in clusters of this many neighbouring CTAs along x.
///
/// # Safety
///
/// As [`launch_with`].
pub(super) unsafe fn launch_in_clusters(
    function: CUfunction,
    ctas: u32,
    of_cluster: u32,
    threads: u32,
    smem: u32,
    stream: &CudaStream,
    arguments: &mut [*mut c_void],
) -> Result<(), CudaError> {
    let mut attribute = cluster_attribute(of_cluster);
    let config = CUlaunchConfig { hStream: stream.raw(), ..cluster_config(ctas, threads, smem, &mut attribute) };
    // SAFETY: by the caller's promise; the attribute lives until the call returns.
    unsafe { sys::cuLaunchKernelEx(&raw const config, function, arguments.as_mut_ptr(), ptr::null_mut()) }
        .result()
        .map_err(|e| CudaError::driver("launch a kernel in clusters", e))
}

/// Whether the device runs clusters of this many CTAs of a function.
///
/// # Safety
///
/// The module of the function is loaded, and its context is current.
pub(super) unsafe fn has_clusters(function: CUfunction, of_cluster: u32, threads: u32, smem: u32) -> bool {
    let mut attribute = cluster_attribute(of_cluster);
    let config = cluster_config(of_cluster, threads, smem, &mut attribute);
    let mut clusters = 0;
    // SAFETY: by the caller's promise; the attribute and the output live until the call returns.
    let result = unsafe { sys::cuOccupancyMaxActiveClusters(&raw mut clusters, function, &raw const config) };
    result.result().is_ok() && clusters > 0
}

fn cluster_attribute(of_cluster: u32) -> CUlaunchAttribute {
    let dimension = CUlaunchAttributeValue_union__bindgen_ty_1 { x: of_cluster, y: 1, z: 1 };
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    value.clusterDim = dimension;
    CUlaunchAttribute { id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, pad: [0; 4], value }
}

fn cluster_config(ctas: u32, threads: u32, smem: u32, attribute: &mut CUlaunchAttribute) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: ctas,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: smem,
        hStream: ptr::null_mut(),
        attrs: attribute,
        numAttrs: 1,
    }
}

/// Launches a kernel with any arguments, which the driver copies before it returns, unless the grid is empty.
///
/// # Safety
///
/// The function takes arguments of these types, and all memory that they point to is valid.
pub(super) unsafe fn launch_with(
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
