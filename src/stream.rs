//! Streams: the order in which runs happen.

#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{Engine, Error, engine::Backend};

/// The order in which runs happen. On the CPU, where a run returns when it is done, there is nothing behind it. `Send` and `Sync`.
///
/// Every call that is given a stream works with its device, whatever device or context the calling thread had current, and leaves that as it was.
#[derive(Debug)]
pub struct Stream {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(cuda::Stream),
}

impl Stream {
    pub(crate) fn new(engine: &Engine) -> Result<Self, Error> {
        let inner = match &engine.backend {
            Backend::Cpu => Inner::Cpu,
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => Inner::Cuda(cuda::Stream::new(device)?),
        };
        Ok(Stream { inner })
    }

    /// The stream of an engine's CUDA device that somebody else made: a `CUstream`, a `cudaStream_t`; null is the
    /// default stream.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] when the engine is the CPU.
    ///
    /// # Safety
    ///
    /// As [`cuda::Stream::from_raw`].
    #[cfg(feature = "cuda")]
    pub unsafe fn from_raw(engine: &Engine, raw: *mut std::ffi::c_void) -> Result<Self, Error> {
        match &engine.backend {
            Backend::Cpu => Err(Error::Backend { what: "stream", got: "a CUDA device", want: "the CPU" }),
            // SAFETY: the caller's promise.
            Backend::Cuda(device) => Ok(Stream { inner: Inner::Cuda(unsafe { cuda::Stream::from_raw(device, raw) }) }),
        }
    }

    /// Waits for everything that was given to it.
    ///
    /// # Errors
    ///
    /// What a kernel ran into, if one did.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            Inner::Cuda(stream) => Ok(stream.synchronize()?),
        }
    }

    /// The CUDA stream; `None` on the CPU.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn as_cuda(&self) -> Option<&cuda::Stream> {
        match &self.inner {
            Inner::Cpu => None,
            Inner::Cuda(stream) => Some(stream),
        }
    }

    /// The CUDA stream, or an error that says so.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&self) -> Result<&cuda::Stream, Error> {
        self.as_cuda().ok_or(Error::Backend { what: "stream", got: "the CPU", want: "a CUDA device" })
    }

    pub(crate) fn check_cpu(&self) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            Inner::Cuda(_) => Err(Error::Backend { what: "stream", got: "a CUDA device", want: "the CPU" }),
        }
    }
}
