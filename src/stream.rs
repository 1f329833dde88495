//! Streams: the order of runs.

#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{Engine, Error, engine::Backend};

/// The order of runs. On the CPU a run returns when it is done, so a stream does nothing there. `Send` and `Sync`.
///
/// Every call that takes a stream uses the stream's device, whatever device or context the calling thread has current,
/// and leaves the current one as it was.
#[derive(Debug)]
pub struct Stream {
    backend: StreamBackend,
}

#[derive(Debug)]
enum StreamBackend {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(cuda::Stream),
}

impl Engine {
    /// A new stream. On the CPU it is only a token, as a run returns when it is done.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn stream(&self) -> Result<Stream, Error> {
        Stream::new(self)
    }
}

impl Stream {
    pub(crate) fn new(engine: &Engine) -> Result<Self, Error> {
        let backend = match &engine.backend {
            Backend::Cpu => StreamBackend::Cpu,
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => StreamBackend::Cuda(cuda::Stream::new(device)?),
        };
        Ok(Stream { backend })
    }

    /// Wraps a stream of the engine's CUDA device that another library made: a `CUstream` or `cudaStream_t`. Null is
    /// the default stream.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] when the engine is the CPU; the per-thread default stream; a failure of the driver.
    ///
    /// # Safety
    ///
    /// As [`cuda::Stream::from_raw`].
    #[cfg(feature = "cuda")]
    pub unsafe fn from_raw(engine: &Engine, raw: *mut std::ffi::c_void) -> Result<Self, Error> {
        match &engine.backend {
            Backend::Cpu => Err(Error::Backend { what: "stream", got: "a CUDA device", want: "the CPU" }),
            Backend::Cuda(device) => {
                // SAFETY: the caller guarantees it.
                let stream = unsafe { cuda::Stream::from_raw(device, raw) }?;
                Ok(Stream { backend: StreamBackend::Cuda(stream) })
            }
        }
    }

    /// Waits for everything that was launched on the stream.
    ///
    /// # Errors
    ///
    /// A fault of a kernel that ran before.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.backend {
            StreamBackend::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            StreamBackend::Cuda(stream) => Ok(stream.synchronize()?),
        }
    }

    /// The CUDA stream; `None` on the CPU.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn as_cuda(&self) -> Option<&cuda::Stream> {
        match &self.backend {
            StreamBackend::Cpu => None,
            StreamBackend::Cuda(stream) => Some(stream),
        }
    }

    /// The CUDA stream, or the error that this is the CPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&self) -> Result<&cuda::Stream, Error> {
        self.as_cuda().ok_or(Error::Backend { what: "stream", got: "the CPU", want: "a CUDA device" })
    }

    pub(crate) fn check_cpu(&self) -> Result<(), Error> {
        match &self.backend {
            StreamBackend::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            StreamBackend::Cuda(_) => Err(Error::Backend { what: "stream", got: "a CUDA device", want: "the CPU" }),
        }
    }
}
