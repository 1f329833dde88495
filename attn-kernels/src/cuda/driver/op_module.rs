//! The loaded kernels of an op.

use cudarc::driver::result::module;
use cudarc::driver::sys::{CUfunction, CUmodule};

use crate::cuda::CudaError;

/// A module and its functions. The owner unloads it.
#[derive(Clone, Debug)]
pub(in crate::cuda) struct OpModule {
    pub(in crate::cuda) module: CUmodule,
    pub(in crate::cuda) functions: Vec<CUfunction>,
}

// SAFETY: the driver allows modules and functions in any thread in which their context is current, which every call
// sees to.
unsafe impl Send for OpModule {}
// SAFETY: as above; nothing is changed after loading.
unsafe impl Sync for OpModule {}

impl OpModule {
    /// The function with a number.
    pub(in crate::cuda) fn get(&self, kernel: usize) -> Result<CUfunction, CudaError> {
        self.functions.get(kernel).copied().ok_or_else(|| not_loaded(kernel))
    }

    /// Unloads the module. To be called once, with the context current and no launch in flight.
    pub(in crate::cuda) fn unload(&self) {
        // SAFETY: it was loaded, and is not used again.
        let _ = unsafe { module::unload(self.module) };
    }
}

/// The error for a kernel that the module does not have.
pub(in crate::cuda) fn not_loaded(kernel: usize) -> CudaError {
    let (what, code) = (format!("find kernel {kernel} of an op"), "its module is loaded, and has it not".to_owned());
    CudaError::Driver { what, code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_kernel_is_an_error() {
        let function = 0x10 as CUfunction;
        let module = OpModule { module: std::ptr::null_mut(), functions: vec![function] };
        assert!(matches!(module.get(0), Ok(found) if found == function));
        let error = module.get(1).expect_err("there is one").to_string();
        assert!(error.contains("kernel 1"), "{error}");
    }
}
