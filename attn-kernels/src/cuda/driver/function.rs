//! Modules and their functions.

use std::ffi::{CString, c_void};

use cudarc::driver::result::{DriverError, function, module};
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute as Attribute, CUmodule};

use crate::compile::Compiled;
use crate::cuda::CudaError;

/// Finds a function and loads it. Drivers load functions lazily, and loading fails if the first launch is in a capture.
/// Messages call the module `within`.
///
/// # Safety
///
/// The module is loaded, and its context is current.
pub(in crate::cuda) unsafe fn find_function(
    module: CUmodule,
    name: &str,
    within: &str,
) -> Result<CUfunction, CudaError> {
    let what = || format!("find_function {name} in `{within}`");
    let symbol = CString::new(name).map_err(|e| CudaError::Driver { what: what(), code: e.to_string() })?;
    // SAFETY: the caller's promise.
    let found = unsafe { module::get_function(module, symbol) };
    let function = found.map_err(|e| CudaError::driver(what(), e))?;
    // querying an attribute loads the function
    // SAFETY: the function belongs to the module.
    unsafe { function::get_function_attribute(function, Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS) }
        .map_err(|e| CudaError::driver(what(), e))?;
    Ok(function)
}

/// Loads the cubin of a kernel, in the context that is current. Nobody unloads it but the caller.
pub(in crate::cuda) fn load_module(compiled: &Compiled, name: &str) -> Result<CUmodule, CudaError> {
    // the driver reads the image as 8-byte words of an ELF file, and an embedded image has any alignment
    let cubin = &compiled.cubin;
    let mut image = vec![0u64; cubin.len().div_ceil(8)];
    bytemuck::cast_slice_mut(&mut image)[..cubin.len()].copy_from_slice(cubin);
    // SAFETY: the image is a whole cubin: from a compiler, or checksummed by the cache.
    let module = unsafe { module::load_data(image.as_ptr().cast::<c_void>()) };
    module.map_err(|e| CudaError::driver(format!("load `{name}`"), e))
}

/// Lets a function use this much dynamic shared memory, and its SM keep as much of it as there is.
///
/// # Safety
///
/// The module of the function is loaded, and its context is current.
pub(in crate::cuda) unsafe fn opt_in_smem(function: CUfunction, bytes: u32) -> Result<(), DriverError> {
    let carveout = sys::CUshared_carveout_enum::CU_SHAREDMEM_CARVEOUT_MAX_SHARED as i32;
    for (attribute, value) in [
        (Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes as i32),
        (Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, carveout),
    ] {
        // SAFETY: the caller's promise.
        unsafe { function::set_function_attribute(function, attribute, value) }?;
    }
    Ok(())
}
