//! CUDA streams.

use std::ffi::c_void;

use cudarc::driver::{
    result::stream,
    sys::{CUstream, CUstreamCaptureStatus},
};

use super::{CudaError, Device};

/// A stream, owned or borrowed. `Send` and `Sync`: threads may submit work concurrently, in an order that they have to
/// control.
#[derive(Debug)]
pub struct Stream {
    device: Device,
    raw: CUstream,
    owned: bool,
}

// SAFETY: the driver allows a stream in any thread in which its context is current, which every call sees to.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates a stream that does not synchronise with the default stream.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let _current = device.make_current()?;
        let raw = stream::create(stream::StreamKind::NonBlocking).map_err(|e| CudaError::driver("make a stream", e))?;
        Ok(Stream { device: device.clone(), raw, owned: true })
    }

    /// Borrows a `CUstream` (or `cudaStream_t`); null is the default stream.
    ///
    /// # Safety
    ///
    /// It is a stream of the device's primary context, and it outlives this object and every [`Event`](super::Event)
    /// and [`Graph`](super::Graph) in use on it.
    #[must_use]
    pub unsafe fn from_raw(device: &Device, raw: *mut c_void) -> Self {
        Stream { device: device.clone(), raw: raw.cast(), owned: false }
    }

    /// The `CUstream`.
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.cast()
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Waits for all work of the stream.
    ///
    /// # Errors
    ///
    /// The error of a kernel.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let _current = self.device.make_current()?;
        // SAFETY: the stream lives.
        unsafe { stream::synchronize(self.raw) }.map_err(|e| CudaError::driver("finish the work of the stream", e))
    }

    /// Whether the stream is being captured.
    pub(super) fn is_capturing(&self) -> Result<bool, CudaError> {
        let _current = self.device.make_current()?;
        // SAFETY: the stream lives.
        let status = unsafe { stream::is_capturing(self.raw) }.map_err(|e| CudaError::driver("query a stream", e))?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Refuses a stream that is being captured. A captured copy from host memory, for example, would read this memory
    /// again at each replay.
    pub(super) fn refuse_capture(&self, what: &'static str) -> Result<(), CudaError> {
        if self.is_capturing()? { Err(CudaError::Capturing { what }) } else { Ok(()) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(_current) = self.device.make_current()
        {
            // another stream may get the same address, and work on it must not count as ordered after this stream's
            let _ = self.synchronize();
            // SAFETY: it is ours.
            let _ = unsafe { stream::destroy(self.raw) };
        }
    }
}
