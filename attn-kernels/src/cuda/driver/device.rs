//! A device and its primary context.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, mem, ptr};

use cudarc::driver::result::{self, device, primary_ctx};
use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute as Attribute};

use super::capture_lock::CaptureLock;
use super::captured::{self, Kept};
use super::device_costs::DeviceCosts;
use super::library;
use super::op_module::OpModule;
use super::release::{Deferred, Released, wait_for_context};
use crate::cost::{CostTable, CostsError};
use crate::cuda::CudaError;
use crate::problem::check_capability;
use crate::splice::Op;

/// A CUDA device. Cheap to clone; the primary context is retained while a clone lives.
///
/// The CUDA runtime, cudarc, candle and PyTorch use the primary context too, so their pointers and streams are valid
/// here. Every call makes the primary context current in its thread, and restores the previous one. `Send` and `Sync`.
#[derive(Clone)]
pub struct Device {
    inner: Arc<DeviceContext>,
    costs: DeviceCosts,
}

struct DeviceContext {
    ordinal: u32,
    raw: CUdevice,
    context: CUcontext,
    name: String,
    capability: (u32, u32),
    multiprocessors: u32,
    clock_khz: u32,
    memory_clock_khz: u32,
    memory_bus_bits: u32,
    max_smem: u32,
    l2_bytes: u32,
    memory: usize,
    captures: Arc<CaptureLock>,
    /// The loaded ops; unloaded with the context.
    ops: Mutex<HashMap<Op, OpModule>>,
    /// What was dropped under a capture, by whichever object of the device.
    released: Arc<Deferred<Released>>,
}

// SAFETY: a primary context may be used from any thread, as long as it is made current there, which every call does.
unsafe impl Send for DeviceContext {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for DeviceContext {}

impl Device {
    /// Opens a device. Its kernels have the costs of the file that `ATTN_COSTS` names, if it names one; the first
    /// attention reads it.
    ///
    /// # Errors
    ///
    /// No driver, no such device, or one older than compute capability 8.0.
    pub fn new(ordinal: u32) -> Result<Self, CudaError> {
        let count = library::device_count()?;
        let fail = |e| CudaError::driver(format!("open device {ordinal}"), e);
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let raw = device::get(ordinal as i32).map_err(fail)?;
        let attribute = |which| {
            // SAFETY: the device comes from `device::get`.
            unsafe { device::get_attribute(raw, which) }.map(|v| u32::try_from(v).unwrap_or(0)).map_err(fail)
        };
        let name = device::get_name(raw).map_err(fail)?;
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        check_capability(&name, capability)?;
        let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        // they are for reports alone: a driver without them is no failure
        let known = |which| attribute(which).unwrap_or(0);
        let clock_khz = known(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
        let memory_clock_khz = known(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
        let memory_bus_bits = known(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
        let l2_bytes = attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        let max_smem = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        // SAFETY: as above.
        let memory = unsafe { device::total_mem(raw) }.map_err(fail)?;
        // SAFETY: as above; released when the last clone is dropped.
        let context = unsafe { primary_ctx::retain(raw) }.map_err(fail)?;
        let (captures, ops) = (CaptureLock::of(ordinal), Mutex::default());
        let inner = DeviceContext {
            ordinal,
            raw,
            context,
            name,
            capability,
            multiprocessors,
            clock_khz,
            memory_clock_khz,
            memory_bus_bits,
            max_smem,
            l2_bytes,
            memory,
            captures,
            ops,
            released: Deferred::of(ordinal),
        };
        Ok(Device { inner: Arc::new(inner), costs: DeviceCosts::default() })
    }

    /// The same device, on which attentions choose kernels and cut batches by other costs. The file that `ATTN_COSTS`
    /// names is then not read.
    #[must_use]
    pub fn with_costs(&self, costs: CostTable) -> Self {
        Device { costs: DeviceCosts::given(costs), ..self.clone() }
    }

    /// The costs of its kernels.
    ///
    /// # Errors
    ///
    /// A file of `ATTN_COSTS` that has no costs.
    pub fn costs(&self) -> Result<&CostTable, CostsError> {
        self.costs.table()
    }

    /// Bytes of the L2 cache.
    #[must_use]
    pub fn l2_bytes(&self) -> u32 {
        self.inner.l2_bytes
    }

    /// The ordinal.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.inner.ordinal
    }
    /// The name, such as `NVIDIA H200`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }
    /// Compute capability, such as (9, 0).
    #[must_use]
    pub fn capability(&self) -> (u32, u32) {
        self.inner.capability
    }
    /// The number of SMs.
    #[must_use]
    pub fn multiprocessors(&self) -> u32 {
        self.inner.multiprocessors
    }
    /// The highest clock of the SMs in kHz; 0 if the driver does not say.
    #[must_use]
    pub fn clock_khz(&self) -> u32 {
        self.inner.clock_khz
    }
    /// The highest clock of the memory in kHz, with two transfers a clock; 0 if the driver does not say.
    #[must_use]
    pub fn memory_clock_khz(&self) -> u32 {
        self.inner.memory_clock_khz
    }
    /// The width of the bus to the memory in bits; 0 if the driver does not say.
    #[must_use]
    pub fn memory_bus_bits(&self) -> u32 {
        self.inner.memory_bus_bits
    }
    /// Shared memory that a CTA may use after opting in, in bytes.
    #[must_use]
    pub fn max_smem(&self) -> u32 {
        self.inner.max_smem
    }
    /// Device memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.inner.memory
    }

    /// Makes the context current in this thread until the returned guard is dropped.
    pub(in crate::cuda) fn make_current(&self) -> Result<Current, CudaError> {
        let fail = |e| CudaError::driver("make the context current", e);
        let before = result::ctx::get_current().map_err(fail)?;
        let ours = self.inner.context;
        if before == Some(ours) {
            return Ok(Current { restores: None, of_this_thread: PhantomData });
        }
        // SAFETY: the context is retained by `inner`.
        unsafe { result::ctx::set_current(ours) }.map_err(fail)?;
        Ok(Current { restores: Some(before.unwrap_or(ptr::null_mut())), of_this_thread: PhantomData })
    }

    /// Waits for all work of the device, after captures in other threads have ended.
    ///
    /// # Errors
    ///
    /// The error of a kernel; a capture in this thread.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        {
            let _wait = self.captures().wait()?;
            let _current = self.make_current()?;
            result::ctx::synchronize().map_err(|e| CudaError::driver("finish the work of the device", e))?;
        }
        self.free_released();
        Ok(())
    }

    /// Frees what captured launches of gone plans, attentions and transforms use, where another library captured them:
    /// its graphs of them must not be replayed any more. [`CudaPlan::release_captured`] does so for one plan.
    ///
    /// [`CudaPlan::release_captured`]: crate::cuda::CudaPlan::release_captured
    pub fn release_captured(&self) {
        captured::release_device(self.ordinal());
    }

    /// The context with the loaded ops, to be kept for captured launches.
    pub(in crate::cuda) fn kept(&self) -> Kept {
        self.inner.clone()
    }

    /// Frees what nobody owns any more, after the device has finished its work. Under a capture on the device it is
    /// freed later.
    pub(in crate::cuda) fn release(&self, item: Released) {
        self.release_all(Some(item));
    }

    /// Frees what was dropped under a capture of the device, unless a capture is still in progress.
    pub(in crate::cuda) fn free_released(&self) {
        if !self.inner.released.is_empty() {
            self.release_all(None);
        }
    }

    fn release_all(&self, item: Option<Released>) {
        let Ok(_current) = self.make_current() else { return };
        // SAFETY: its owner is gone, and the device has finished its work.
        self.inner.released.release(self.captures(), item, wait_for_context, |item| unsafe { item.free() });
    }

    /// The lock between captures and synchronisations.
    pub(super) fn captures(&self) -> &CaptureLock {
        &self.inner.captures
    }

    /// The loaded ops.
    pub(in crate::cuda) fn ops(&self) -> MutexGuard<'_, HashMap<Op, OpModule>> {
        self.inner.ops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::cuda) fn check_same(&self, what: &'static str, other: &Device) -> Result<(), CudaError> {
        let (want, got) = (self.ordinal(), other.ordinal());
        if want == got { Ok(()) } else { Err(CudaError::OtherDevice { what, got, want }) }
    }
}

/// A guard that keeps the context of a device current in this thread. Its drop restores the previous context, because
/// the calling engine may use another context or device.
#[must_use = "the context is current only as long as this lives"]
pub(in crate::cuda) struct Current {
    /// The previous context; `None` if it was the context of this device.
    restores: Option<CUcontext>,
    /// The current context belongs to the thread.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Current {
    fn drop(&mut self) {
        if let Some(before) = self.restores {
            // SAFETY: the previous context was current in this thread, or it is null (no context). If its owner has
            // destroyed it meanwhile, there is nothing to restore.
            let _ = unsafe { result::ctx::set_current(before) };
        }
    }
}

impl Drop for DeviceContext {
    fn drop(&mut self) {
        let ops = mem::take(self.ops.get_mut().unwrap_or_else(PoisonError::into_inner));
        let modules: Vec<_> = ops.into_values().map(|op| Released::Module(op.module)).collect();
        if !(modules.is_empty() && self.released.is_empty()) {
            let before = result::ctx::get_current().ok().flatten();
            // SAFETY: the context is retained until the end of this function.
            if unsafe { result::ctx::set_current(self.context) }.is_ok() {
                // SAFETY: the owners are gone, and the device has finished its work.
                self.released.release(&self.captures, modules, wait_for_context, |item| unsafe { item.free() });
                // SAFETY: the previous context was current in this thread, or it is null (no context).
                let _ = unsafe { result::ctx::set_current(before.unwrap_or(ptr::null_mut())) };
            }
        }
        if self.released.is_empty() {
            // SAFETY: retained once by `Device::new`. A failure is ignored, because a drop cannot return it.
            let _ = unsafe { primary_ctx::release(self.raw) };
        } else {
            self.released.defer([Released::Context(self.raw)]);
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability();
        write!(f, "CUDA device {} ({}, compute capability {major}.{minor})", self.ordinal(), self.name())
    }
}
