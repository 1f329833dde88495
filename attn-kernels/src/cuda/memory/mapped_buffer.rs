//! Buffers in pinned host memory that kernels access, as they do those in device memory.

use attn_core::tensor::DeviceMemory;

use super::pinned_memory::PinnedMemory;
use crate::cuda::driver::use_tracker::BufferUses;
use crate::cuda::driver::uses::Access;
use crate::cuda::{CudaError, CudaStream, Device};

/// Pinned host memory, which kernels and copies of any stream access at the same address as the host. Freed on drop
/// (which waits for the device).
#[derive(Debug)]
pub struct CudaHostBuffer {
    device: Device,
    memory: PinnedMemory,
    uses: BufferUses,
}

impl CudaHostBuffer {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    ///
    /// No memory that can be pinned, or a failure of the driver.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        let (memory, uses) = (PinnedMemory::new(device, bytes)?, BufferUses::new(device));
        Ok(CudaHostBuffer { device: device.clone(), memory, uses })
    }

    /// The address, for host and device.
    #[must_use]
    pub fn ptr(&self) -> u64 {
        self.memory.ptr() as u64
    }

    /// The owner of the memory, as [`CudaBuffer::owner`](crate::cuda::CudaBuffer::owner).
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

    /// Copies the first `out.len()` bytes, once everything that was launched on the stream has finished, and writes of
    /// other streams before.
    ///
    /// # Errors
    ///
    /// A stream of another device or one that is being captured, more bytes than there are, or the error of a kernel.
    pub fn read_after(&self, stream: &CudaStream, out: &mut [u8]) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        let end = self.end(0, out.len())?;
        let _current = self.device.make_current()?;
        {
            let _submission = stream.submission();
            stream.refuse_capture("read on the host")?;
            self.uses.0.submit(stream.state(), Access::Read, || Ok(()))?;
        }
        stream.synchronize()?;
        out.copy_from_slice(&self.memory.bytes()[..end]);
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
