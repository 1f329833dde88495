//! Host memory that a device reads and writes itself.

use std::ffi::c_void;

use cudarc::driver::{result, sys};

use super::{CudaError, Device};

/// Host memory that is locked in place, so that kernels and copies of any stream reach it; at the same address on both sides. Freed on drop
/// (which waits for the device).
#[derive(Debug)]
pub struct PinnedBuffer {
    device: Device,
    ptr: *mut c_void,
    bytes: usize,
}

// SAFETY: it is memory, which is reached through `&self` after the device has finished, and written through `&mut self`.
unsafe impl Send for PinnedBuffer {}
// SAFETY: as above.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// Memory of zeros.
    ///
    /// # Errors
    ///
    /// No memory to be locked, or a failure of the driver.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        let _current = device.make_current()?;
        let mut ptr = std::ptr::null_mut();
        if bytes > 0 {
            let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
            // SAFETY: the context is current.
            ptr = unsafe { result::malloc_host(bytes, flags) }
                .map_err(|e| CudaError::driver(format!("lock {bytes} bytes of host memory"), e))?;
            // SAFETY: it is as long, and nobody else knows of it.
            unsafe { std::ptr::write_bytes(ptr.cast::<u8>(), 0, bytes) };
        }
        Ok(PinnedBuffer { device: device.clone(), ptr, bytes })
    }

    /// The address, on the host and for the device; 0 when empty.
    #[must_use]
    pub fn ptr(&self) -> u64 {
        self.ptr as u64
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies `out.len()` bytes from byte `offset` on, after everything that was given to the device has finished.
    ///
    /// # Errors
    ///
    /// More than there is, or what a kernel ran into.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaError> {
        self.device.synchronize()?;
        self.check(offset, out.len())?;
        if !out.is_empty() {
            // SAFETY: checked to lie within the memory, and nothing of the device is under way.
            unsafe { std::ptr::copy_nonoverlapping(self.ptr.cast::<u8>().add(offset), out.as_mut_ptr(), out.len()) };
        }
        Ok(())
    }

    /// Copies `data` to byte `offset`, after everything that was given to the device has finished.
    ///
    /// # Errors
    ///
    /// More than there is room, or what a kernel ran into.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        self.device.synchronize()?;
        self.check(offset, data.len())?;
        if !data.is_empty() {
            // SAFETY: checked to lie within the memory, and nothing of the device is under way.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.ptr.cast::<u8>().add(offset), data.len()) };
        }
        Ok(())
    }

    fn check(&self, offset: usize, len: usize) -> Result<(), CudaError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(CudaError::Driver {
                what: format!("copy {len} bytes at {offset}"),
                code: format!("the buffer has {} bytes", self.bytes),
            }),
        }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if self.ptr.is_null() {
            return;
        }
        let finished = self.device.synchronize().is_ok();
        if let (true, Ok(_current)) = (finished, self.device.make_current()) {
            // SAFETY: it is ours, and nothing of the device is under way.
            let _ = unsafe { result::free_host(self.ptr) };
        }
    }
}
