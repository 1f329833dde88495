//! A loaded kernel family: one cubin, its functions, and how many CTAs of it the device holds.

use std::{ffi::c_void, ptr};

use attn_core::spec::KernelKind;
use cudarc::driver::{
    result::{function, module, occupancy},
    sys::{self, CUfunction, CUfunction_attribute as Attribute, CUmodule},
};

use super::{CudaError, Device};
use crate::{
    cell::Cell,
    compile::{Arch, Resources},
    jit::Ready,
};

/// A loaded kernel family. `Send` and `Sync`.
#[derive(Debug)]
pub struct Kernel {
    device: Device,
    module: CUmodule,
    pub(super) main: CUfunction,
    /// Of all but decode, which merges by itself.
    pub(super) merge: Option<CUfunction>,
    pub(super) kv_pass: Option<CUfunction>,
    ready: Ready,
    resident: u32,
}

// SAFETY: the driver allows modules and functions in any thread in which their context is current, which every call
// sees to.
unsafe impl Send for Kernel {}
// SAFETY: as above; nothing is changed after loading.
unsafe impl Sync for Kernel {}

impl Kernel {
    pub(super) fn load(device: &Device, ready: Ready) -> Result<Self, CudaError> {
        let _current = device.make_current()?;
        let cell = ready.source.cell;
        let name = ready.source.name.clone();
        let need = cell.smem_bytes();
        if need > device.max_smem() {
            return Err(CudaError::SharedMemory { kernel: name, need, have: device.max_smem() });
        }
        let fail = |e| CudaError::driver(format!("load `{name}`"), e);
        // an embedded image lies anywhere; the driver reads it as the words of an ELF file
        let cubin = &ready.compiled.cubin;
        let mut image = vec![0u64; cubin.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut image)[..cubin.len()].copy_from_slice(cubin);
        // SAFETY: the image is a whole cubin: from a compiler, or checksummed by the cache.
        let raw = unsafe { module::load_data(image.as_ptr().cast::<c_void>()) }.map_err(fail)?;
        // from here on the module is unloaded by drop
        let mut kernel = Kernel {
            device: device.clone(),
            module: raw,
            main: ptr::null_mut(),
            merge: None,
            kv_pass: None,
            ready,
            resident: 0,
        };
        kernel.main = kernel.function(match cell.kind {
            KernelKind::Prefill => "attn_prefill",
            KernelKind::Decode => "attn_decode",
            KernelKind::Mixed => "attn_mixed",
        })?;
        kernel.merge = (!cell.merges_within()).then(|| kernel.function("attn_merge")).transpose()?;
        kernel.kv_pass = cell.has_kv_pass().then(|| kernel.function("attn_kv_pass")).transpose()?;
        kernel.resident = kernel.opt_in(&cell).map_err(fail)?;
        Ok(kernel)
    }

    /// Takes the shared memory that the main kernel needs; gives the CTAs that the whole device holds at a time.
    fn opt_in(&self, cell: &Cell) -> Result<u32, cudarc::driver::result::DriverError> {
        let smem = cell.smem_bytes();
        let carveout = sys::CUshared_carveout_enum::CU_SHAREDMEM_CARVEOUT_MAX_SHARED as i32;
        // SAFETY: the function belongs to the module, which is loaded.
        unsafe {
            function::set_function_attribute(
                self.main,
                Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                smem as i32,
            )?;
            function::set_function_attribute(
                self.main,
                Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                carveout,
            )?;
            let per_sm =
                occupancy::max_active_block_per_multiprocessor(self.main, cell.threads() as i32, smem as usize)?;
            Ok(u32::try_from(per_sm).unwrap_or(0).max(1) * self.device.multiprocessors())
        }
    }

    fn function(&self, name: &str) -> Result<CUfunction, CudaError> {
        // SAFETY: the module is loaded, in the context that is current.
        unsafe { super::function::find(self.module, name, &self.ready.source.name) }
    }

    /// Its cell.
    #[must_use]
    pub fn cell(&self) -> &Cell {
        &self.ready.source.cell
    }
    /// The architecture that it was compiled for.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.cell().arch
    }
    /// The cubin, its source, and where it came from.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }
    /// Registers, spills and shared memory of its functions, as the compiler told.
    #[must_use]
    pub fn resources(&self) -> Vec<Resources> {
        self.ready.compiled.resources()
    }
    /// CTAs of the main function that the whole device holds at a time.
    #[must_use]
    pub fn resident_ctas(&self) -> u32 {
        self.resident
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // launches may be under way; a device in error cannot be waited for, and runs nothing either
        let _ = self.device.synchronize();
        if let Ok(_current) = self.device.make_current() {
            // SAFETY: loaded by `load`, unloaded once.
            let _ = unsafe { module::unload(self.module) };
        }
    }
}
