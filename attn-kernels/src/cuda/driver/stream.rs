//! CUDA streams, and the state that all handles of one stream share: what is ordered on it, and what a capture keeps.

use std::{ffi::c_void, sync::Arc};

use cudarc::driver::{result::stream, sys::CUstream};

use super::captured::{Kept, Name};
use super::stream_state::{StreamState, Submission};
use crate::cuda::{CudaError, Device, Event};

/// A stream, owned or borrowed. `Send` and `Sync`: threads may submit work concurrently, in an order that they have to
/// control.
#[derive(Debug)]
pub struct CudaStream {
    device: Device,
    state: Arc<StreamState>,
    owned: bool,
}

impl CudaStream {
    /// Creates a stream that does not synchronise with the default stream.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let _current = device.make_current()?;
        let raw = stream::create(stream::StreamKind::NonBlocking).map_err(|e| CudaError::driver("make a stream", e))?;
        match StreamState::of(device, raw) {
            Ok(state) => Ok(CudaStream { device: device.clone(), state, owned: true }),
            Err(error) => {
                // SAFETY: it is ours and not used again.
                let _ = unsafe { stream::destroy(raw) };
                Err(error)
            }
        }
    }

    /// Borrows a `CUstream` (or `cudaStream_t`); null is the default stream. Several objects may borrow one stream.
    ///
    /// # Errors
    ///
    /// [`CudaError::PerThreadStream`] for the per-thread default stream (2); a failure of the driver.
    ///
    /// # Safety
    ///
    /// It is a stream of the device's primary context, and it outlives this object. Where another library captures the
    /// stream, it orders replays as runs have to be: after earlier work on the same plans and memory, and before later.
    /// What they use of plans, attentions and transforms is kept until [`CudaPlan::release_captured`] or
    /// [`Device::release_captured`], after which there are no replays; tensors and buffers are the caller's. This
    /// object is dropped outside of the capture, unless everything launched through it is captured.
    ///
    /// [`CudaPlan::release_captured`]: crate::cuda::CudaPlan::release_captured
    pub unsafe fn from_raw(device: &Device, raw: *mut c_void) -> Result<Self, CudaError> {
        Ok(CudaStream { device: device.clone(), state: StreamState::of(device, raw.cast())?, owned: false })
    }

    /// The `CUstream`.
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.raw().cast()
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(in crate::cuda) fn raw(&self) -> CUstream {
        self.state.raw()
    }

    /// What others need to wait for the stream.
    pub(in crate::cuda) fn state(&self) -> &Arc<StreamState> {
        &self.state
    }

    /// Records an event after all work that was submitted to the stream so far.
    ///
    /// # Errors
    ///
    /// An event of another device, or a failure of the driver.
    pub fn record(&self, event: &Event) -> Result<(), CudaError> {
        self.device.check_same("event", event.device())?;
        let _current = self.device.make_current()?;
        event.record_on(self.raw())
    }

    /// Waits for all work of the stream.
    ///
    /// # Errors
    ///
    /// The error of a kernel.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let _current = self.device.make_current()?;
        // SAFETY: the stream lives.
        unsafe { stream::synchronize(self.raw()) }.map_err(|e| CudaError::driver("finish the work of the stream", e))
    }

    /// Begins to submit work.
    pub(in crate::cuda) fn submission(&self) -> Submission<'_> {
        self.state.submission()
    }

    /// Whether the stream is being captured.
    pub(in crate::cuda) fn is_capturing(&self) -> Result<bool, CudaError> {
        let _current = self.device.make_current()?;
        self.state.is_capturing()
    }

    /// Keeps what the next launch uses under a name, if another library captures the stream.
    pub(in crate::cuda) fn keep_captured<I>(&self, name: Name, all: impl FnOnce() -> I) -> Result<(), CudaError>
    where
        I: IntoIterator<Item = Kept>,
    {
        let _current = self.device.make_current()?;
        if self.state.is_captured_elsewhere()? {
            name.keep(all());
        }
        Ok(())
    }

    /// Refuses a stream that is being captured. A captured copy from host memory, for example, would read this memory
    /// again at each replay.
    pub(in crate::cuda) fn refuse_capture(&self, what: &'static str) -> Result<(), CudaError> {
        if self.is_capturing()? { Err(CudaError::Capturing { what }) } else { Ok(()) }
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        let Ok(_current) = self.device.make_current() else { return };
        self.state.close();
        if self.owned {
            // SAFETY: it is ours. The driver lets its work finish.
            let _ = unsafe { stream::destroy(self.raw()) };
        }
    }
}
