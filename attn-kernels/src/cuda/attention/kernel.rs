//! A loaded kernel: its cubin, its functions, and the CTAs of it that are resident on the device.

use std::ptr;

use attn_core::spec::{Heads, KernelKind};
use cudarc::driver::result::{DriverError, occupancy};
use cudarc::driver::sys::{CUfunction, CUmodule};

use crate::compile::{Arch, Resources};
use crate::cuda::driver::function::{find_function, load_module, opt_in_smem};
use crate::cuda::driver::release::Released;
use crate::cuda::{CudaError, Device};
use crate::jit::Ready;
use crate::kernel_traits::KernelTraits;
use crate::launch::merge_grid;

/// A loaded kernel: the main function, and those that run before and after it. `Send` and `Sync`.
#[derive(Debug)]
pub struct Kernel {
    device: Device,
    module: CUmodule,
    pub(in crate::cuda) main: CUfunction,
    /// `None` for decode, which merges in the main function.
    pub(in crate::cuda) merge: Option<CUfunction>,
    pub(in crate::cuda) kv_preprocess: Option<CUfunction>,
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
        let traits = ready.source.traits;
        let name = ready.source.name.clone();
        let need = traits.smem_bytes();
        if need > device.max_smem() {
            return Err(CudaError::SharedMemory { kernel: name, need, have: device.max_smem() });
        }
        let fail = |e| CudaError::driver(format!("load `{name}`"), e);
        let raw = load_module(&ready.compiled, &name)?;
        // from here on drop unloads the module
        let mut kernel = Kernel {
            device: device.clone(),
            module: raw,
            main: ptr::null_mut(),
            merge: None,
            kv_preprocess: None,
            ready,
            resident: 0,
        };
        kernel.main = kernel.function(match traits.kind() {
            KernelKind::Prefill => "attn_prefill",
            KernelKind::Decode => "attn_decode",
            KernelKind::Mixed => "attn_mixed",
        })?;
        kernel.merge = (!traits.facts().has_workers).then(|| kernel.function("attn_merge")).transpose()?;
        kernel.kv_preprocess = traits.has_kv_preprocess().then(|| kernel.function("attn_kv_preprocess")).transpose()?;
        kernel.resident = kernel.opt_in(&traits).map_err(fail)?;
        Ok(kernel)
    }

    /// Opts in to the shared memory of the main function; returns its resident CTAs, or clusters, on the device.
    fn opt_in(&self, traits: &KernelTraits) -> Result<u32, DriverError> {
        let smem = traits.smem_bytes();
        // SAFETY: the function belongs to the module, which is loaded.
        unsafe {
            opt_in_smem(self.main, smem)?;
            let per_sm =
                occupancy::max_active_block_per_multiprocessor(self.main, traits.threads() as i32, smem as usize)?;
            let ctas = u32::try_from(per_sm).unwrap_or(0).max(1) * self.device.multiprocessors();
            Ok((ctas / traits.facts().cluster_ctas).max(1))
        }
    }

    fn function(&self, name: &str) -> Result<CUfunction, CudaError> {
        // SAFETY: the module is loaded, in the context that is current.
        unsafe { find_function(self.module, name, &self.ready.source.name) }
    }

    /// The kernel traits.
    #[must_use]
    pub fn traits(&self) -> &KernelTraits {
        &self.ready.source.traits
    }
    /// The architecture that the kernel was compiled for.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.traits().common.arch
    }
    /// The cubin, its source and its origin.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }
    /// Registers, spills and shared memory of the functions, from the compile log.
    #[must_use]
    pub fn resources(&self) -> Vec<Resources> {
        self.ready.compiled.resources()
    }
    /// The grid of the merge function.
    pub(in crate::cuda) fn merge_grid(&self, merges: u32, heads: Heads) -> (u32, u32) {
        let [x, y] = merge_grid(self.traits(), merges, heads, self.device.multiprocessors());
        (x, y)
    }
    /// Resident CTAs of the main function on the device; of clusters, whose CTAs share work, their number.
    #[must_use]
    pub fn resident_ctas(&self) -> u32 {
        self.resident
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.device.release(Released::Module(self.module));
    }
}
