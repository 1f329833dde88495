//! An allocation of pinned host memory: the source of uploads (`staging`), and what kernels access (`mapped_buffer`).

use cudarc::driver::result;

use crate::cuda::{CudaError, Device, driver::release::Released};

/// Pinned host memory. Copies from it are asynchronous. Freed on drop, after the device has finished its work.
#[derive(Debug)]
pub(super) struct PinnedMemory {
    device: Device,
    ptr: *mut u8,
    bytes: usize,
}

// SAFETY: host memory may be used and freed from any thread.
unsafe impl Send for PinnedMemory {}
// SAFETY: as above; the host writes the memory through `&mut` alone.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// Allocates zeroed memory.
    pub(super) fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        if bytes == 0 {
            return Ok(PinnedMemory { device: device.clone(), ptr: std::ptr::null_mut(), bytes });
        }
        device.free_released();
        let _current = device.make_current()?;
        // SAFETY: the context is current.
        let ptr = unsafe { result::malloc_host(bytes, 0) }
            .map_err(|e| CudaError::driver(format!("allocate {bytes} bytes of pinned memory"), e))?;
        let ptr = ptr.cast::<u8>();
        // SAFETY: the driver allocated `bytes` bytes.
        unsafe { ptr.write_bytes(0, bytes) };
        Ok(PinnedMemory { device: device.clone(), ptr, bytes })
    }

    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    pub(in crate::cuda) fn bytes(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: this object owns `bytes` bytes, and `new` has initialised them.
        unsafe { std::slice::from_raw_parts(self.ptr, self.bytes) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.bytes == 0 {
            return &mut [];
        }
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.bytes) }
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if self.bytes != 0 {
            self.device.release(Released::Pinned(self.ptr));
        }
    }
}
