//! CUDA graphs: a step of a serving engine, captured once for each batch size and replayed with any lengths.

mod buckets;

use crate::backend::{Backend, CudaGraph, map_backend, on_backend};
use crate::{Error, Stream};

pub use buckets::{GraphBuckets, Step};

/// A captured sequence of launches, which replays with one launch. On the CPU nothing is recorded, and a replay calls
/// the work again. `Send` and `Sync`.
#[derive(Debug)]
pub struct Graph {
    backend: Backend<(), CudaGraph>,
}

impl Graph {
    /// Records what `work` launches on the stream instead of running it: runs of plans, updates on the device
    /// ([`Plan::update_on_device`](crate::Plan::update_on_device)), kernels of the engine. Under a capture nothing may
    /// wait, allocate or load a kernel, so run the work once before the capture. On the CPU `work` is not called.
    ///
    /// Other threads that wait for the device (allocations, downloads, some drops) wait for the capture to end. So
    /// `work` must not join such a thread: both would wait for ever. What other threads launch on the stream meanwhile
    /// becomes a part of the capture.
    ///
    /// # Errors
    ///
    /// Errors of `work`, and work that cannot be captured.
    pub fn capture(stream: &Stream, work: impl FnOnce() -> Result<(), Error>) -> Result<Self, Error> {
        Ok(Graph { backend: map_backend!(&stream.backend, { Cpu(()) => (), Cuda(stream) => stream.capture(work)? }) })
    }

    /// Launches the recorded work; on the CPU it calls `work`. It allocates nothing and does not wait for the device.
    /// As a run would, the work waits for that of other streams on the same plans and buffers.
    ///
    /// # Errors
    ///
    /// A stream of another engine, or a failure of the driver; on the CPU, errors of `work`.
    ///
    /// # Safety
    ///
    /// Everything that the recorded work reads, writes and runs still lives, at the same address: tensors, attentions,
    /// layers ([`RunOptions::layer`](crate::RunOptions::layer)), plans, and the workspace of each plan, into which
    /// nothing else was planned; also each [`KvTransform`](crate::ops::KvTransform) and
    /// [`BatchChecker`](crate::BatchChecker), which own kernels. During this call no other thread uses these plans and
    /// buffers. Memory that was given as an address ([`TensorRef::device`](crate::TensorRef::device)) is ordered by the
    /// caller. `work` does the same as the work that was captured.
    pub unsafe fn replay(&mut self, stream: &Stream, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        on_backend!(&mut self.backend, {
            Cpu(()) => stream.cpu().and_then(|()| work()),
            // SAFETY: the caller guarantees it.
            Cuda(graph) => Ok(unsafe { graph.launch(stream.cuda()?) }?),
        })
    }
}
