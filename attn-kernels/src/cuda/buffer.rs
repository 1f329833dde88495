//! Device memory, and memory of the host that a device copies from by itself.

use std::ops::Range;

use cudarc::driver::result;

use super::{CudaError, Device, Stream};

/// Device memory, freed on drop (which waits for the device). Starts are aligned to 256 bytes. `Send` and `Sync`: it is copied to and from by shared
/// reference, in the order of streams.
#[derive(Debug)]
pub struct DeviceBuffer {
    device: Device,
    ptr: u64,
    bytes: usize,
    owned: bool,
}

impl DeviceBuffer {
    /// Memory whose content is not defined.
    ///
    /// # Errors
    ///
    /// [`CudaError::OutOfMemory`], or a failure of the driver.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        let _current = device.make_current()?;
        if bytes == 0 {
            return Ok(DeviceBuffer { device: device.clone(), ptr: 0, bytes, owned: true });
        }
        // SAFETY: the context is current; what is in the memory is nobody's concern before it is written.
        match unsafe { result::malloc_sync(bytes) } {
            Ok(ptr) => Ok(DeviceBuffer { device: device.clone(), ptr, bytes, owned: true }),
            Err(error) if error.0 == cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let free = result::mem_get_info().map_or(0, |(free, _)| free);
                Err(CudaError::OutOfMemory { bytes, free })
            }
            Err(error) => Err(CudaError::driver(format!("allocate {bytes} bytes"), error)),
        }
    }

    /// Memory of somebody else, which is not freed on drop.
    ///
    /// # Safety
    ///
    /// There are `bytes` bytes at `ptr`, in memory of this device; they live as long as this and all work that was given to the device with it, and
    /// nobody else writes them meanwhile.
    #[must_use]
    pub unsafe fn from_raw(device: &Device, ptr: u64, bytes: usize) -> Self {
        DeviceBuffer { device: device.clone(), ptr, bytes, owned: false }
    }

    /// Memory that holds a copy of `data`. Returns when it does.
    ///
    /// # Errors
    ///
    /// As [`DeviceBuffer::new`].
    pub fn upload(device: &Device, data: &[u8]) -> Result<Self, CudaError> {
        let buffer = Self::new(device, data.len())?;
        if !data.is_empty() {
            let _current = device.make_current()?;
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
        let _current = self.device.make_current()?;
        // SAFETY: checked to lie within the buffer.
        unsafe { result::memcpy_dtoh_sync(out, self.ptr + offset as u64) }.map_err(|e| CudaError::driver("download", e))
    }

    /// Copies `data` to byte `offset`, in the order of the stream. `data` may be reused on return, if it is in pageable memory, as ordinary memory is: the
    /// driver then copies it first, and may wait for the stream in order to. What is pinned may be reused when the stream has got there.
    ///
    /// # Errors
    ///
    /// More than there is room, a stream that is being captured (replays would read `data`), or a failure of the driver.
    pub fn write(&self, stream: &Stream, offset: usize, data: &[u8]) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        stream.refuse_capture("copy values of the host")?;
        self.check(offset, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let _current = self.device.make_current()?;
        // SAFETY: checked to lie within the buffer. The driver stages pageable memory before it returns; pinned memory is the caller's matter.
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
        let _current = self.device.make_current()?;
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
        if self.owned
            && self.ptr != 0
            && let Ok(_current) = self.device.make_current()
        {
            // SAFETY: it is ours; the driver waits for kernels that may use it.
            let _ = unsafe { result::free_sync(self.ptr) };
        }
    }
}

/// Pinned memory of the host, which a device copies from while the host goes on. Freed on drop: nobody may be copying from it then.
#[derive(Debug)]
pub(super) struct PinnedBuffer {
    device: Device,
    ptr: *mut u8,
    bytes: usize,
}

// SAFETY: it is memory like any other.
unsafe impl Send for PinnedBuffer {}
// SAFETY: as above; it is written by `&mut` alone.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// So many bytes, all 0.
    pub(super) fn new(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        if bytes == 0 {
            return Ok(PinnedBuffer { device: device.clone(), ptr: std::ptr::null_mut(), bytes });
        }
        let _current = device.make_current()?;
        // SAFETY: the context is current.
        let ptr = unsafe { result::malloc_host(bytes, 0) }
            .map_err(|e| CudaError::driver(format!("allocate {bytes} bytes of pinned memory"), e))?;
        let ptr = ptr.cast::<u8>();
        // SAFETY: there are as many.
        unsafe { ptr.write_bytes(0, bytes) };
        Ok(PinnedBuffer { device: device.clone(), ptr, bytes })
    }

    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    pub(super) fn bytes(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: they are ours, and were set.
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

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if self.bytes != 0
            && let Ok(_current) = self.device.make_current()
        {
            // SAFETY: it is ours.
            let _ = unsafe { result::free_host(self.ptr.cast()) };
        }
    }
}
