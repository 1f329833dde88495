//! Copies from host memory that have read their source when they return.
//!
//! The driver stages pageable memory before an asynchronous copy returns. It reads memory that it knows (pinned,
//! registered or managed) when the stream gets there, so a safe copy from such memory waits for the stream.

use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode};

use crate::cuda::driver::address::{UNKNOWN, kind_of_memory};
use crate::cuda::{CudaError, CudaStream};

/// Calls `copy`, which submits a copy from `data` to the stream, and returns once `data` may be changed. The context of
/// the stream is current, and the stream is not being captured.
pub(super) fn copy_from(
    stream: &CudaStream,
    data: &[u8],
    copy: impl FnOnce() -> Result<(), CudaError>,
) -> Result<(), CudaError> {
    let ends =
        [data.first(), data.last()].map(|end| end.map_or(UNKNOWN, |at: &u8| kind_of_memory(&raw const *at as u64)));
    if !is_read_later(ends) {
        return copy();
    }
    // a thread that captures another stream may wait for this one
    let _relaxed = RelaxedCapture::begin()?;
    copy()?;
    stream.synchronize()
}

/// Whether the driver reads memory only when the stream gets there. `ends` is what it says of the first and the last
/// byte.
fn is_read_later(ends: [(CUresult, u32); 2]) -> bool {
    ends.iter().any(|&end| end != UNKNOWN)
}

/// Lets this thread wait while it captures, until it is dropped.
struct RelaxedCapture {
    before: CUstreamCaptureMode,
}

impl RelaxedCapture {
    fn begin() -> Result<Self, CudaError> {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the mode is valid for reads and writes.
        let code = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
        code.result().map_err(|e| CudaError::driver("wait for a copy", e))?;
        Ok(RelaxedCapture { before: mode })
    }
}

impl Drop for RelaxedCapture {
    fn drop(&mut self) {
        // SAFETY: as in `begin`.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut self.before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_unknown_to_the_driver_is_read_at_once() {
        assert!(!is_read_later([UNKNOWN; 2]));
        for known in [(CUresult::CUDA_SUCCESS, 1), (CUresult::CUDA_ERROR_UNKNOWN, 0)] {
            assert!(
                is_read_later([known, known]) && is_read_later([known, UNKNOWN]) && is_read_later([UNKNOWN, known])
            );
        }
    }
}
