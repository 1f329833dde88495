//! The planner kernel on the device, loaded.

use std::ffi::{CStr, CString};

use cudarc::driver::result::module;
use cudarc::driver::sys::{CUfunction, CUmodule};

use crate::cuda::driver::function::{load_module, opt_in_smem};
use crate::cuda::driver::release::Released;
use crate::cuda::{CudaError, Device};
use crate::jit;
use crate::launch::PLAN_SHARED_BYTES;
use crate::splice::PlannerSource;

/// The planner kernel, loaded.
#[derive(Debug)]
pub(in crate::cuda) struct Planner {
    device: Device,
    module: CUmodule,
    pub(in crate::cuda) function: CUfunction,
}

// SAFETY: the driver allows modules and functions in any thread in which their context is current, which every call
// sees to.
unsafe impl Send for Planner {}
// SAFETY: as above; nothing is changed after loading.
unsafe impl Sync for Planner {}

impl Planner {
    /// Loads a cubin and finds the kernel in it.
    pub(in crate::cuda) fn load(
        device: &Device,
        ready: &jit::Ready<PlannerSource>,
        kernel: &CStr,
    ) -> Result<Self, CudaError> {
        let _current = device.make_current()?;
        let name = &ready.source.name;
        if PLAN_SHARED_BYTES as u32 > device.max_smem() {
            let (need, have) = (PLAN_SHARED_BYTES as u32, device.max_smem());
            return Err(CudaError::SharedMemory { kernel: name.clone(), need, have });
        }
        let fail = |e| CudaError::driver(format!("load `{name}`"), e);
        let module = load_module(&ready.compiled, name)?;
        let mut planner = Planner { device: device.clone(), module, function: std::ptr::null_mut() };
        // SAFETY: the module is loaded.
        planner.function = unsafe { module::get_function(module, CString::from(kernel)) }.map_err(fail)?;
        // the shared memory carveout of the decode kernel, so that an SM keeps it from the planner to decode
        // SAFETY: the function belongs to the module.
        unsafe { opt_in_smem(planner.function, PLAN_SHARED_BYTES as u32) }.map_err(fail)?;
        Ok(planner)
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        self.device.release(Released::Module(self.module));
    }
}
