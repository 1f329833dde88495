//! Streams: the order of runs.

use crate::{
    Engine, Error,
    backend::{Backend, CudaStream, map_backend, on_backend},
};

/// The order of runs. On the CPU a run returns when it is done, so a stream does nothing there. `Send` and `Sync`.
///
/// Every call that takes a stream uses the stream's device, whatever device or context the calling thread has current,
/// and leaves the current one as it was.
#[derive(Debug)]
pub struct Stream {
    pub(crate) backend: Backend<(), CudaStream>,
}

impl Engine {
    /// A new stream. On the CPU it is only a token, as a run returns when it is done.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn stream(&self) -> Result<Stream, Error> {
        Ok(Stream { backend: map_backend!(&self.backend, { Cpu(()) => (), Cuda(device) => CudaStream::new(device)? }) })
    }
}

impl Stream {
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
        // SAFETY: the caller guarantees it.
        let stream = unsafe { CudaStream::from_raw(engine.backend.cuda_for("stream")?, raw) }?;
        Ok(Stream { backend: Backend::Cuda(stream) })
    }

    /// Waits for everything that was launched on the stream.
    ///
    /// # Errors
    ///
    /// A fault of a kernel that ran before.
    pub fn synchronize(&self) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(()) => Ok(()),
            Cuda(stream) => Ok(stream.synchronize()?),
        })
    }

    /// The CUDA stream; `None` on the CPU.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn as_cuda(&self) -> Option<&CudaStream> {
        self.backend.as_cuda()
    }

    /// Checks that this is a stream of the CPU.
    pub(crate) fn cpu(&self) -> Result<(), Error> {
        self.backend.cpu("stream").copied()
    }

    /// The CUDA stream, or the error that this is the CPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&self) -> Result<&CudaStream, Error> {
        self.backend.cuda("stream")
    }
}
