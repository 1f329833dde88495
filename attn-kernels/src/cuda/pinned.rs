//! Host memory that a device reads and writes itself.

use super::{CudaError, Device, buffer::PinnedBuffer};

/// Host memory that is locked in place, so that kernels and copies of any stream reach it; at the same address on both sides. Freed on drop
/// (which waits for the device).
#[derive(Debug)]
pub struct HostBuffer {
    device: Device,
    memory: PinnedBuffer,
}

impl HostBuffer {
    /// Memory of zeros.
    ///
    /// # Errors
    ///
    /// No memory to be locked, or a failure of the driver.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        Ok(HostBuffer { device: device.clone(), memory: PinnedBuffer::new(device, bytes)? })
    }

    /// The address, on the host and for the device.
    #[must_use]
    pub fn ptr(&self) -> u64 {
        self.memory.ptr() as u64
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `out.len()` bytes from byte `offset` on, after everything that was given to the device has finished.
    ///
    /// # Errors
    ///
    /// More than there is, or what a kernel ran into.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaError> {
        self.device.synchronize()?;
        let end = self.end(offset, out.len())?;
        out.copy_from_slice(&self.memory.bytes()[offset..end]);
        Ok(())
    }

    /// Copies `data` to byte `offset`, after everything that was given to the device has finished.
    ///
    /// # Errors
    ///
    /// More than there is room, or what a kernel ran into.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        self.device.synchronize()?;
        let end = self.end(offset, data.len())?;
        self.memory.bytes_mut()[offset..end].copy_from_slice(data);
        Ok(())
    }

    fn end(&self, offset: usize, len: usize) -> Result<usize, CudaError> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len());
        end.ok_or_else(|| CudaError::Driver {
            what: format!("copy {len} bytes at {offset}"),
            code: format!("the buffer has {} bytes", self.len()),
        })
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // ops may be under way; a device in error cannot be waited for, and runs nothing either
        let _ = self.device.synchronize();
    }
}
