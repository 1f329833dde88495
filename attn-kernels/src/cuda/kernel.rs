//! A loaded kernel family: one cubin, its functions, and how many CTAs of it the device holds.

use attn_core::spec::KernelKind;
use cudarc::driver::{result::occupancy, sys::CUfunction};

use super::{CudaError, Device, module::Module};
use crate::{
    cell::Cell,
    compile::{Arch, Resources},
    jit::Ready,
};

/// A loaded kernel family.
#[derive(Debug)]
pub struct Kernel {
    // unloads what the functions are of
    _module: Module,
    pub(super) main: CUfunction,
    /// Of prefill: decode merges by itself.
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
        let (cell, name) = (ready.source.cell, &ready.source.name);
        let smem = cell.smem_bytes();
        let module = Module::load(device, name, &ready.compiled.cubin, smem)?;
        let main = match cell.kind {
            KernelKind::Prefill => "attn_prefill",
            KernelKind::Decode => "attn_decode",
        };
        let main = module.function_with_smem(main, smem)?;
        let merges = cell.kind == KernelKind::Prefill;
        let merge = merges.then(|| module.function("attn_merge")).transpose()?;
        let kv_pass = cell.has_kv_pass().then(|| module.function("attn_kv_pass")).transpose()?;
        // SAFETY: the function belongs to the module, which is loaded.
        let per_sm =
            unsafe { occupancy::max_active_block_per_multiprocessor(main, cell.threads() as i32, smem as usize) };
        let per_sm = per_sm.map_err(|e| CudaError::driver(format!("load `{name}`"), e))?;
        let resident = u32::try_from(per_sm).unwrap_or(0).max(1) * device.multiprocessors();
        Ok(Kernel { _module: module, main, merge, kv_pass, ready, resident })
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
