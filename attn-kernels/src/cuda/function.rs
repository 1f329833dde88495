//! Functions of a loaded module.

use std::ffi::CString;

use cudarc::driver::{
    result::{function, module},
    sys::{CUfunction, CUfunction_attribute as Attribute, CUmodule},
};

use super::CudaError;

/// A function by its name, ready to be launched: drivers load functions lazily, and the first launch may be in a capture, where loading fails. `within` is what
/// messages call the module.
///
/// # Safety
///
/// The module is loaded, and its context is current.
pub(super) unsafe fn find(module: CUmodule, name: &str, within: &str) -> Result<CUfunction, CudaError> {
    let what = || format!("find {name} in `{within}`");
    let symbol = CString::new(name).map_err(|e| CudaError::Driver { what: what(), code: e.to_string() })?;
    // SAFETY: the caller's promise.
    let found = unsafe { module::get_function(module, symbol) };
    let function = found.map_err(|e| CudaError::driver(what(), e))?;
    // asking loads it
    // SAFETY: the function belongs to the module.
    unsafe { function::get_function_attribute(function, Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS) }
        .map_err(|e| CudaError::driver(what(), e))?;
    Ok(function)
}
