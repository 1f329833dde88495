//! Copies from host memory that have read their source when they return.
//!
//! The driver stages pageable memory before an asynchronous copy returns. It reads memory that it knows (pinned,
//! registered or managed) when the stream gets there, so a safe copy from such memory waits for the stream.

use std::ffi::c_void;

use cudarc::driver::sys::{self, CUpointer_attribute, CUresult};

use super::{CudaError, CudaStream, relaxed_capture::RelaxedCapture};

/// Calls `copy`, which submits a copy from `data` to the stream, and returns once `data` may be changed. The context of
/// the stream is current, and the stream is not being captured.
pub(super) fn copy_from(
    stream: &CudaStream,
    data: &[u8],
    copy: impl FnOnce() -> Result<(), CudaError>,
) -> Result<(), CudaError> {
    let ends = [data.first(), data.last()].map(|end| end.map_or(UNKNOWN, kind_of_memory));
    if !is_read_later(ends) {
        return copy();
    }
    // a thread that captures another stream may wait for this one
    let _relaxed = RelaxedCapture::begin("wait for a copy")?;
    copy()?;
    stream.synchronize()
}

/// What the driver says of memory that it does not know: no error, and no kind.
const UNKNOWN: (CUresult, u32) = (CUresult::CUDA_SUCCESS, 0);

/// Whether the driver reads memory only when the stream gets there. `ends` is what it says of the first and the last
/// byte.
fn is_read_later(ends: [(CUresult, u32); 2]) -> bool {
    ends.iter().any(|&end| end != UNKNOWN)
}

/// What the driver says when it is asked for the kind of memory at an address.
fn kind_of_memory(at: &u8) -> (CUresult, u32) {
    let (mut kind, at) = (0u32, std::ptr::from_ref(at) as u64);
    let mut attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    let mut output = (&raw mut kind).cast::<c_void>();
    // `cuPointerGetAttribute` would answer with an error, which tools that watch the driver report
    // SAFETY: one attribute, whose output is an unsigned int; the address is only looked up.
    let code = unsafe { sys::cuPointerGetAttributes(1, &raw mut attribute, &raw mut output, at) };
    (code, kind)
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
