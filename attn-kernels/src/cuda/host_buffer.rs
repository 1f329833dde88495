//! Pinned host memory that kernels access directly.

use attn_core::tensor::DeviceMemory;

use super::{CudaError, Device, pinned_buffer::PinnedBuffer, use_tracker::BufferUses};

/// Pinned host memory, which kernels and copies of any stream access at the same address as the host. Freed on drop
/// (which waits for the device).
#[derive(Debug)]
pub struct CudaHostBuffer {
    device: Device,
    memory: PinnedBuffer,
    uses: BufferUses,
}

impl CudaHostBuffer {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    ///
    /// No memory that can be pinned, or a failure of the driver.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        let (memory, uses) = (PinnedBuffer::new(device, bytes)?, BufferUses::new(device));
        Ok(CudaHostBuffer { device: device.clone(), memory, uses })
    }

    /// The address, for host and device.
    #[must_use]
    pub fn ptr(&self) -> u64 {
        self.memory.ptr() as u64
    }

    /// The owner of the memory, as [`CudaBuffer::owner`](super::CudaBuffer::owner).
    #[must_use]
    pub fn owner(&self) -> &dyn DeviceMemory {
        &self.uses
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `out.len()` bytes from byte `offset` on. Waits for all work of the device.
    ///
    /// # Errors
    ///
    /// A range past the end, or the error of a kernel.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaError> {
        self.device.synchronize()?;
        let end = self.end(offset, out.len())?;
        out.copy_from_slice(&self.memory.bytes()[offset..end]);
        Ok(())
    }

    /// Copies `data` to byte `offset`. Waits for all work of the device.
    ///
    /// # Errors
    ///
    /// A range past the end, or the error of a kernel.
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
