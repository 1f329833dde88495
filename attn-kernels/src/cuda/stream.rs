//! Streams: the order in which a device works.

use std::{ffi::c_void, mem::ManuallyDrop};

use cudarc::driver::{
    result::{self, stream},
    sys::{CUgraph, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus},
};

use super::{CudaError, Device, Graph};

/// A stream: one of its own, or one of somebody else. `Send` and `Sync`: threads may give it work at once, in an order that is then theirs to know.
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
    /// A stream of its own, which does not wait for the default stream.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let _current = device.make_current()?;
        let raw = stream::create(stream::StreamKind::NonBlocking).map_err(|e| CudaError::driver("make a stream", e))?;
        Ok(Stream { device: device.clone(), raw, owned: true })
    }

    /// A `CUstream` (or `cudaStream_t`) of somebody else; null is the default stream.
    ///
    /// # Safety
    ///
    /// It is a stream of the device's primary context, and lives as long as this and every [`Event`](super::Event) and
    /// [`Graph`] in use on it.
    #[must_use]
    pub unsafe fn from_raw(device: &Device, raw: *mut c_void) -> Self {
        Stream { device: device.clone(), raw: raw.cast(), owned: false }
    }

    /// The `CUstream`.
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.cast()
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Waits for everything that was given to the stream.
    ///
    /// # Errors
    ///
    /// What a kernel ran into, if one did.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let _current = self.device.make_current()?;
        // SAFETY: the stream lives.
        unsafe { stream::synchronize(self.raw) }.map_err(|e| CudaError::driver("finish the work of the stream", e))
    }

    /// Whether what is given to the stream is recorded instead of run.
    pub(super) fn is_capturing(&self) -> Result<bool, CudaError> {
        let _current = self.device.make_current()?;
        // SAFETY: the stream lives.
        let status = unsafe { stream::is_capturing(self.raw) }.map_err(|e| CudaError::driver("ask a stream", e))?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Refuses a stream that is being captured: a copy from host memory would be recorded with an address that is soon nobody's.
    pub(super) fn refuse_capture(&self, what: &'static str) -> Result<(), CudaError> {
        if self.is_capturing()? { Err(CudaError::Capturing { what }) } else { Ok(()) }
    }

    /// Records what `work` gives to the stream as a graph, instead of running it. Capture ends whatever `work` says. Meanwhile threads that wait for the
    /// whole device (allocations, downloads, some drops) wait for the capture; in `work` itself such is refused.
    ///
    /// # Errors
    ///
    /// Those of `work`, and work that cannot be captured.
    pub fn capture<E: From<CudaError>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<Graph, E> {
        let _capture = self.device.captures().capture();
        self.begin_capture()?;
        let recording = Recording(self);
        // with the context that the caller has: `work` is the caller's
        work()?;
        let _current = self.device.make_current()?;
        Ok(Graph::new(&self.device, recording.end()?)?)
    }
}

/// A stream that is being captured; a capture that comes to nothing ends with it.
struct Recording<'a>(&'a Stream);

impl Recording<'_> {
    fn end(self) -> Result<CUgraph, CudaError> {
        let stream = ManuallyDrop::new(self).0;
        // SAFETY: a capture is under way.
        unsafe { stream::end_capture(stream.raw) }.map_err(|e| CudaError::driver("end a capture", e))
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let Ok(_current) = self.0.device.make_current() else { return };
        // SAFETY: a capture is under way.
        if let Ok(graph) = unsafe { stream::end_capture(self.0.raw) }
            && !graph.is_null()
        {
            // SAFETY: it is ours and not used again.
            let _ = unsafe { result::graph::destroy(graph) };
        }
    }
}

impl Stream {
    fn begin_capture(&self) -> Result<(), CudaError> {
        let _current = self.device.make_current()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives.
        unsafe { stream::begin_capture(self.raw, mode) }.map_err(|e| CudaError::driver("begin a capture", e))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(_current) = self.device.make_current()
        {
            // its address may be given to another stream, which must not be taken for this one's order
            let _ = self.synchronize();
            // SAFETY: it is ours.
            let _ = unsafe { stream::destroy(self.raw) };
        }
    }
}
