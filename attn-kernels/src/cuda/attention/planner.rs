//! The planner kernel on the device, loaded.

use std::ffi::{CStr, CString, c_void};

use cudarc::driver::result::{function, module};
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute as Attribute, CUmodule};

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
        // the driver reads the image as 8-byte words of an ELF file, and an embedded image has any alignment
        let cubin = &ready.compiled.cubin;
        let mut image = vec![0u64; cubin.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut image)[..cubin.len()].copy_from_slice(cubin);
        // SAFETY: the image is a whole cubin: from a compiler, or checksummed by the cache.
        let module = unsafe { module::load_data(image.as_ptr().cast::<c_void>()) }.map_err(fail)?;
        let mut planner = Planner { device: device.clone(), module, function: std::ptr::null_mut() };
        // SAFETY: the module is loaded.
        planner.function = unsafe { module::get_function(module, CString::from(kernel)) }.map_err(fail)?;
        // the shared memory carveout of the decode kernel, so that an SM keeps it from the planner to decode
        let carveout = sys::CUshared_carveout_enum::CU_SHAREDMEM_CARVEOUT_MAX_SHARED as i32;
        let attributes = [
            (Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, PLAN_SHARED_BYTES as i32),
            (Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, carveout),
        ];
        for (attribute, value) in attributes {
            // SAFETY: the function belongs to the module.
            unsafe { function::set_function_attribute(planner.function, attribute, value) }.map_err(fail)?;
        }
        Ok(planner)
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        self.device.release(Released::Module(self.module));
    }
}
