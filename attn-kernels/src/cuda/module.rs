//! A compiled unit on a device: loaded, asked for its functions, unloaded when dropped.

use std::ffi::{CString, c_void};

use cudarc::driver::{
    result::{function, module},
    sys::{self, CUfunction, CUfunction_attribute as Attribute, CUmodule},
};

use super::{CudaError, Device};

/// A loaded cubin.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) device: Device,
    raw: CUmodule,
    /// What messages call it.
    name: String,
}

// SAFETY: the driver allows modules and functions in any thread in which their context is current, which every call
// sees to.
unsafe impl Send for Module {}
// SAFETY: as above; nothing is changed after loading.
unsafe impl Sync for Module {}

impl Module {
    /// Loads a whole cubin: from a compiler, or checksummed by the cache.
    ///
    /// # Errors
    ///
    /// A function would need more shared memory than the device has; a failure of the driver.
    pub(super) fn load(device: &Device, name: &str, cubin: &[u8], smem: u32) -> Result<Self, CudaError> {
        device.bind()?;
        if smem > device.max_smem() {
            return Err(CudaError::SharedMemory { kernel: name.to_owned(), need: smem, have: device.max_smem() });
        }
        // an embedded image lies anywhere; the driver reads it as the words of an ELF file
        let mut image = vec![0u64; cubin.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut image)[..cubin.len()].copy_from_slice(cubin);
        // SAFETY: the image is a whole cubin, and the driver copies what it needs.
        let raw = unsafe { module::load_data(image.as_ptr().cast::<c_void>()) };
        let raw = raw.map_err(|e| CudaError::driver(format!("load `{name}`"), e))?;
        Ok(Module { device: device.clone(), raw, name: name.to_owned() })
    }

    /// One of its functions, loaded too.
    pub(super) fn function(&self, name: &str) -> Result<CUfunction, CudaError> {
        let what = || format!("find {name} in `{}`", self.name);
        let symbol = CString::new(name).map_err(|e| CudaError::Driver { what: what(), code: e.to_string() })?;
        // SAFETY: the module is loaded.
        let found = unsafe { module::get_function(self.raw, symbol) };
        let function = found.map_err(|e| CudaError::driver(what(), e))?;
        // Drivers load functions lazily; asking loads it now, since the first launch may be in a capture, where loading fails.
        // SAFETY: the function belongs to the module.
        unsafe { function::get_function_attribute(function, Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS) }
            .map_err(|e| CudaError::driver(what(), e))?;
        Ok(function)
    }

    /// One of its functions, which may take so much shared memory. All that take any want an SM to have as much as it can, so that it need not change
    /// that between two of them.
    pub(super) fn function_with_smem(&self, name: &str, smem: u32) -> Result<CUfunction, CudaError> {
        let function = self.function(name)?;
        let carveout = sys::CUshared_carveout_enum::CU_SHAREDMEM_CARVEOUT_MAX_SHARED as i32;
        let attributes = [
            (Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, smem as i32), // of an SM
            (Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, carveout),
        ];
        for (attribute, value) in attributes {
            // SAFETY: the function belongs to the module.
            unsafe { function::set_function_attribute(function, attribute, value) }
                .map_err(|e| CudaError::driver(format!("give shared memory to {name} in `{}`", self.name), e))?;
        }
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // launches may be under way; a device in error cannot be waited for, and runs nothing either
        let _ = self.device.synchronize();
        if self.device.bind().is_ok() {
            // SAFETY: loaded by `load`, unloaded once.
            let _ = unsafe { module::unload(self.raw) };
        }
    }
}
