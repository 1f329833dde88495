//! Functions of a loaded module.

use std::ffi::CString;

use cudarc::driver::{
    result::{function, module},
    sys::{CUfunction, CUfunction_attribute as Attribute, CUmodule},
};

use super::CudaError;

/// Finds a function and loads it. Drivers load functions lazily, and loading fails if the first launch is in a capture.
/// Messages call the module `within`.
///
/// # Safety
///
/// The module is loaded, and its context is current.
pub(super) unsafe fn find_function(module: CUmodule, name: &str, within: &str) -> Result<CUfunction, CudaError> {
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
