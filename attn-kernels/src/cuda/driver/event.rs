//! Events: points of a stream, to measure the time between them or to wait for them.

use cudarc::driver::result::{event, stream};
use cudarc::driver::sys::{CUevent, CUevent_flags, CUevent_wait_flags, CUresult, CUstream};

use super::library;
use crate::cuda::{CudaError, Device};

/// A CUDA event. `Send` and `Sync`.
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: CUevent,
}

// SAFETY: the driver allows an event in any thread in which its context is current, which every call sees to.
unsafe impl Send for Event {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Event {}

impl Event {
    /// An event that records the time.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        Self::with_flags(device, CUevent_flags::CU_EVENT_DEFAULT)
    }

    /// An event that records no time, for synchronisation.
    pub(in crate::cuda) fn untimed(device: &Device) -> Result<Self, CudaError> {
        Self::with_flags(device, CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn with_flags(device: &Device, flags: CUevent_flags) -> Result<Self, CudaError> {
        let _current = device.make_current()?;
        let raw = event::create(flags).map_err(|e| CudaError::driver("make an event", e))?;
        Ok(Event { device: device.clone(), raw })
    }

    /// The device.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Records the event after all work that was submitted to a stream so far. The context of both is current.
    pub(super) fn record_on(&self, stream: CUstream) -> Result<(), CudaError> {
        // SAFETY: both live.
        unsafe { event::record(self.raw, stream) }.map_err(|e| CudaError::driver("record an event", e))
    }

    /// Makes the next work of a stream wait for the event. The context of both is current.
    pub(super) fn order_before(&self, stream: CUstream) -> Result<(), CudaError> {
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both live.
        unsafe { stream::wait_event(stream, self.raw, flags) }.map_err(|e| CudaError::driver("order two streams", e))
    }

    /// Waits until the stream has reached the event.
    ///
    /// # Errors
    ///
    /// The error of a kernel.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let _current = self.device.make_current()?;
        // SAFETY: the event lives.
        unsafe { event::synchronize(self.raw) }.map_err(|e| CudaError::driver("wait for an event", e))
    }

    /// Milliseconds from `start` to this one. Waits for both.
    ///
    /// # Errors
    ///
    /// An event that was not recorded, or a failure of the driver.
    pub fn ms_since(&self, start: &Event) -> Result<f32, CudaError> {
        start.synchronize()?;
        self.synchronize()?;
        let _current = self.device.make_current()?;
        let mut ms = 0.0;
        // SAFETY: both events live, and the output is valid for writes.
        let code = unsafe { (library::driver()?.elapsed_time)(&raw mut ms, start.raw.cast(), self.raw.cast()) };
        if code == CUresult::CUDA_SUCCESS as u32 {
            Ok(ms)
        } else {
            Err(CudaError::Driver { what: "time two events".into(), code: format!("error {code}") })
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.make_current() {
            // SAFETY: it is ours.
            let _ = unsafe { event::destroy(self.raw) };
        }
    }
}
