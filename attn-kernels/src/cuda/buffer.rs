//! Device memory that is owned.

use std::ops::Range;

use cudarc::driver::result;

use super::{CudaError, Device, Stream};

/// Device memory, freed on drop (which waits for the device). Starts are aligned to 256 bytes.
#[derive(Debug)]
pub struct DeviceBuffer {
    device: Device,
    ptr: u64,
    bytes: usize,
}

impl DeviceBuffer {
    /// Memory whose content is not defined.
    ///
    /// # Errors
    ///
    /// [`CudaError::OutOfMemory`], or a failure of the driver.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        device.bind()?;
        if bytes == 0 {
            return Ok(DeviceBuffer { device: device.clone(), ptr: 0, bytes });
        }
        // SAFETY: the context is current; what is in the memory is nobody's concern before it is written.
        match unsafe { result::malloc_sync(bytes) } {
            Ok(ptr) => Ok(DeviceBuffer { device: device.clone(), ptr, bytes }),
            Err(error) if error.0 == cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let free = result::mem_get_info().map_or(0, |(free, _)| free);
                Err(CudaError::OutOfMemory { bytes, free })
            }
            Err(error) => Err(CudaError::driver(format!("allocate {bytes} bytes"), error)),
        }
    }

    /// Memory that holds a copy of `data`. Returns when it does.
    ///
    /// # Errors
    ///
    /// As [`DeviceBuffer::new`].
    pub fn upload(device: &Device, data: &[u8]) -> Result<Self, CudaError> {
        let buffer = Self::new(device, data.len())?;
        if !data.is_empty() {
            // SAFETY: the buffer is as long as the data.
            unsafe { result::memcpy_htod_sync(buffer.ptr, data) }.map_err(|e| CudaError::driver("upload", e))?;
            // a copy from pageable memory may return before it has arrived, and other streams do not wait for it
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

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies `out.len()` bytes from byte `offset` on, after everything that was given to the device has finished.
    ///
    /// # Errors
    ///
    /// More than there is, or what a kernel ran into.
    pub fn download(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaError> {
        self.device.synchronize()?;
        self.check(offset, out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        // SAFETY: checked to lie within the buffer.
        unsafe { result::memcpy_dtoh_sync(out, self.ptr + offset as u64) }.map_err(|e| CudaError::driver("download", e))
    }

    /// Copies `data` to byte `offset`, in the order of the stream. `data` may be reused on return.
    ///
    /// # Errors
    ///
    /// More than there is room, or a failure of the driver.
    pub fn write(&self, stream: &Stream, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        self.check(offset, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: checked to lie within the buffer. The driver stages pageable memory before it returns.
        unsafe { result::memcpy_htod_async(self.ptr + offset as u64, data, stream.raw()) }
            .map_err(|e| CudaError::driver("upload", e))
    }

    /// Sets every byte, in the order of the stream.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn fill(&self, stream: &Stream, byte: u8) -> Result<(), CudaError> {
        self.fill_range(stream, 0..self.bytes, byte)
    }

    /// Sets the bytes of a range, in the order of the stream.
    ///
    /// # Errors
    ///
    /// More than there is, or a failure of the driver.
    pub fn fill_range(&self, stream: &Stream, range: Range<usize>, byte: u8) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        self.check(range.start, range.len())?;
        if range.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: checked to lie within the buffer.
        unsafe { result::memset_d8_async(self.ptr + range.start as u64, byte, range.len(), stream.raw()) }
            .map_err(|e| CudaError::driver("fill", e))
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

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.ptr != 0 && self.device.bind().is_ok() {
            // SAFETY: it is ours; the driver waits for kernels that may use it.
            let _ = unsafe { result::free_sync(self.ptr) };
        }
    }
}
