//! Streams: the order of runs.

use crate::backend::{Backend, CudaStream, Device, map_backend, on_backend};
use crate::{Engine, Error};

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
    /// It is a stream of the device's primary context, and it outlives this object. Where another library captures the
    /// stream, it orders replays as runs have to be: after earlier work on the same plans and memory, and before later.
    /// What they use of plans, attentions and transforms is kept until
    /// [`Plan::release_captured`](crate::Plan::release_captured) or
    /// [`Engine::release_captured`](crate::Engine::release_captured), after which there are no replays; tensors and
    /// buffers are the caller's. This object is dropped outside of the capture, unless everything launched through it
    /// is captured.
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

    /// Records an event after all work that was submitted to the stream so far.
    ///
    /// # Errors
    ///
    /// A stream of the CPU, or of another device than the event; a failure of the driver.
    #[cfg(feature = "cuda")]
    pub fn record(&self, event: &attn_kernels::cuda::Event) -> Result<(), Error> {
        Ok(self.cuda()?.record(event)?)
    }

    /// The CUDA device; `None` on the CPU.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        self.backend.as_cuda().map(CudaStream::device)
    }

    /// The `CUstream`, for launches of other libraries; `None` on the CPU.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn as_raw(&self) -> Option<*mut std::ffi::c_void> {
        self.backend.as_cuda().map(CudaStream::as_raw)
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
