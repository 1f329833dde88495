//! A thread that captures, or whose process does, may do for a while what a capture forbids by default.

use cudarc::driver::sys::{self, CUstreamCaptureMode};

use super::CudaError;

/// Lets this thread wait, and make objects, while a stream is captured, until it is dropped. What it does belongs to no
/// capture.
#[must_use = "the mode ends with it"]
pub(super) struct RelaxedCapture {
    before: CUstreamCaptureMode,
}

impl RelaxedCapture {
    pub(super) fn begin(what: &'static str) -> Result<Self, CudaError> {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the mode is valid for reads and writes.
        let code = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
        code.result().map_err(|e| CudaError::driver(what, e))?;
        Ok(RelaxedCapture { before: mode })
    }
}

impl Drop for RelaxedCapture {
    fn drop(&mut self) {
        // SAFETY: as in `begin`.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut self.before) };
    }
}
