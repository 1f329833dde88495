//! Buffers in device memory. Each use is ordered after those before it on other streams (`UseTracker`).

use std::{ops::Range, sync::Arc};

use attn_core::tensor::DeviceMemory;
use cudarc::driver::result;

use super::host_copy::copy_from;
use crate::cuda::driver::release::Released;
use crate::cuda::driver::use_tracker::{BufferUses, UseTracker};
use crate::cuda::driver::uses::Access;
use crate::cuda::{CudaError, CudaStream, Device};

/// Device memory, aligned to 256 bytes and freed on drop (which waits for the device). `Send` and `Sync`. Reads take it
/// by shared reference and writes take it alone, so that no launch of another thread reads it in between. A copy waits
/// for earlier work of other streams on the buffer.
#[derive(Debug)]
pub struct CudaBuffer {
    device: Device,
    uses: BufferUses,
    ptr: u64,
    bytes: usize,
    owned: bool,
}

impl CudaBuffer {
    /// Allocates memory with undefined content.
    ///
    /// # Errors
    ///
    /// [`CudaError::OutOfMemory`], or a failure of the driver.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        device.free_released();
        let _current = device.make_current()?;
        if bytes == 0 {
            return Ok(Self::over(device, 0, bytes, true));
        }
        // SAFETY: the context is current; the content of the memory is undefined until it is written.
        match unsafe { result::malloc_sync(bytes) } {
            Ok(ptr) => Ok(Self::over(device, ptr, bytes, true)),
            Err(error) if error.0 == cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let free = result::mem_get_info().map_or(0, |(free, _)| free);
                Err(CudaError::OutOfMemory { bytes, free })
            }
            Err(error) => Err(CudaError::driver(format!("allocate {bytes} bytes"), error)),
        }
    }

    /// Wraps memory that the caller owns. It is not freed on drop.
    ///
    /// # Safety
    ///
    /// There are `bytes` bytes at `ptr`, in memory of this device. They outlive this object and all work that uses it,
    /// and nothing else writes them meanwhile.
    #[must_use]
    pub unsafe fn from_raw(device: &Device, ptr: u64, bytes: usize) -> Self {
        Self::over(device, ptr, bytes, false)
    }

    fn over(device: &Device, ptr: u64, bytes: usize, owned: bool) -> Self {
        CudaBuffer { device: device.clone(), uses: BufferUses::new(device), ptr, bytes, owned }
    }

    /// Allocates memory, all zero. Returns when it is.
    ///
    /// # Errors
    ///
    /// The errors of [`CudaBuffer::new`].
    pub fn zeroed(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        let (mut buffer, stream) = (Self::new(device, bytes)?, CudaStream::new(device)?);
        buffer.fill(&stream, 0)?;
        stream.synchronize()?;
        Ok(buffer)
    }

    /// Allocates memory and copies `data` to it. Returns when the copy has finished.
    ///
    /// # Errors
    ///
    /// The errors of [`CudaBuffer::new`].
    pub fn upload(device: &Device, data: &[u8]) -> Result<Self, CudaError> {
        let buffer = Self::new(device, data.len())?;
        if !data.is_empty() {
            let _current = device.make_current()?;
            // SAFETY: the buffer is as long as the data.
            unsafe { result::memcpy_htod_sync(buffer.ptr, data) }.map_err(|e| CudaError::driver("upload", e))?;
            // a copy from pageable memory may return before it has finished, and other streams do not wait for it
            device.synchronize()?;
        }
        Ok(buffer)
    }

    /// The device pointer; 0 when empty.
    #[must_use]
    pub fn ptr(&self) -> u64 {
        self.ptr
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The streams that use the memory.
    pub(in crate::cuda) fn uses(&self) -> &Arc<UseTracker> {
        &self.uses.0
    }

    /// The owner of the memory, for descriptors of it ([`TensorRef::owned_by`](attn_core::tensor::TensorRef)): runs on
    /// another device are refused, and runs wait for work of other streams on the buffer.
    #[must_use]
    pub fn owner(&self) -> &dyn DeviceMemory {
        &self.uses
    }

    /// Copies `out.len()` bytes from byte `offset` on. Waits for all work of the device.
    ///
    /// # Errors
    ///
    /// A range past the end, or the error of a kernel.
    pub fn download(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaError> {
        self.device.synchronize()?;
        self.check(offset, out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        let _current = self.device.make_current()?;
        // SAFETY: checked to lie within the buffer.
        unsafe { result::memcpy_dtoh_sync(out, self.ptr + offset as u64) }.map_err(|e| CudaError::driver("download", e))
    }

    /// Copies `data` to byte `offset`, in the order of the stream. `data` may be changed on return: the driver copies
    /// pageable memory first, and may wait for the stream to do so; for pinned memory this waits for the stream.
    ///
    /// # Errors
    ///
    /// A range past the end, a stream that is being captured (replays would read `data`), or a failure of the driver.
    ///
    /// ```compile_fail,E0596
    /// use attn_kernels::cuda::{CudaBuffer, CudaStream};
    ///
    /// fn beside_a_run(buffer: &CudaBuffer, stream: &CudaStream) {
    ///     let _ = buffer.write(stream, 0, &[0]);
    /// }
    /// ```
    pub fn write(&mut self, stream: &CudaStream, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        self.write_shared(stream, offset, data)
    }

    /// Writes under a lock of the caller, which keeps launches with the memory from coming in between
    /// ([`CudaBuffer::write`] has none): they are ordered before they are launched, and a write of another thread in
    /// between would be ordered before them.
    pub(super) fn write_shared(&self, stream: &CudaStream, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        let _current = self.device.make_current()?;
        let _submission = stream.submission();
        // SAFETY: `data` has been read when `copy_from` returns.
        copy_from(stream, data, || unsafe { self.write_async_shared(stream, offset, data) })
    }

    /// Does not wait for a copy from pinned memory, unlike [`CudaBuffer::write`].
    ///
    /// # Errors
    ///
    /// The errors of [`CudaBuffer::write`].
    ///
    /// # Safety
    ///
    /// Where `data` is memory that the driver knows (pinned, registered, managed), it is neither changed nor freed
    /// before the stream has executed the copy.
    pub unsafe fn write_async(&mut self, stream: &CudaStream, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.write_async_shared(stream, offset, data) }
    }

    /// Writes without waiting, as [`CudaBuffer::write_async`], under a lock of the caller, as
    /// [`CudaBuffer::write_shared`].
    ///
    /// # Safety
    ///
    /// What [`CudaBuffer::write_async`] asks.
    pub(super) unsafe fn write_async_shared(
        &self,
        stream: &CudaStream,
        offset: usize,
        data: &[u8],
    ) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        let _submission = stream.submission();
        stream.refuse_capture("copy values of the host")?;
        self.check(offset, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let _current = self.device.make_current()?;
        self.uses().submit(stream.state(), Access::Write, || {
            // SAFETY: checked to lie within the buffer. The driver stages pageable memory before it returns; for other
            // memory the caller has promised.
            unsafe { result::memcpy_htod_async(self.ptr + offset as u64, data, stream.raw()) }
                .map_err(|e| CudaError::driver("upload", e))
        })
    }

    /// Sets every byte, in the order of the stream.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn fill(&mut self, stream: &CudaStream, byte: u8) -> Result<(), CudaError> {
        self.fill_range(stream, 0..self.bytes, byte)
    }

    /// Sets the bytes of a range, in the order of the stream.
    ///
    /// # Errors
    ///
    /// A range past the end, or a failure of the driver.
    pub fn fill_range(&mut self, stream: &CudaStream, range: Range<usize>, byte: u8) -> Result<(), CudaError> {
        self.fill_shared(stream, range, byte)
    }

    /// Fills a range under a lock of the caller, as [`CudaBuffer::write_shared`] writes one.
    pub(super) fn fill_shared(&self, stream: &CudaStream, range: Range<usize>, byte: u8) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        self.check(range.start, range.len())?;
        if range.is_empty() {
            return Ok(());
        }
        let _current = self.device.make_current()?;
        let _submission = stream.submission();
        self.uses().submit(stream.state(), Access::Write, || {
            // SAFETY: checked to lie within the buffer.
            unsafe { result::memset_d8_async(self.ptr + range.start as u64, byte, range.len(), stream.raw()) }
                .map_err(|e| CudaError::driver("fill", e))
        })
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

impl Drop for CudaBuffer {
    fn drop(&mut self) {
        if self.owned && self.ptr != 0 {
            self.device.release(Released::Memory(self.ptr));
        }
    }
}
