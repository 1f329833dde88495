//! Functions of a loaded module.

use std::ffi::CString;

use cudarc::driver::result::{function, module};
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute as Attribute, CUmodule};

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

/// Lets a function use as much dynamic shared memory as a CTA can have, beside what it has of its own.
///
/// # Safety
///
/// The module of the function is loaded, and its context is current.
pub(in crate::cuda) unsafe fn opt_in_smem(function: CUfunction, bytes: u32, within: &str) -> Result<(), CudaError> {
    let carveout = sys::CUshared_carveout_enum::CU_SHAREDMEM_CARVEOUT_MAX_SHARED as i32;
    for (attribute, value) in [
        (Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes as i32),
        (Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, carveout),
    ] {
        // SAFETY: the caller's promise.
        unsafe { function::set_function_attribute(function, attribute, value) }
            .map_err(|e| CudaError::driver(format!("give `{within}` shared memory"), e))?;
    }
    Ok(())
}
