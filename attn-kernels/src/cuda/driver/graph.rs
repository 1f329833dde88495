//! CUDA graphs: captured launches that are replayed.

use cudarc::driver::result::graph;
use cudarc::driver::sys::{CUgraph, CUgraphExec, CUgraphInstantiate_flags};

use super::stream_state::CapturedUse;
use crate::cuda::{CudaError, CudaStream, Device};

/// Captured launches. [`CudaGraph::launch`] says what must live as long as they are replayed. `Send` and `Sync`.
#[derive(Debug)]
pub struct CudaGraph {
    device: Device,
    /// The memory whose users each launch is ordered with.
    uses: Vec<CapturedUse>,
    raw: CUgraph,
    executable: CUgraphExec,
}

// SAFETY: the driver allows a graph in any thread, one at a time; `launch` takes `&mut self`.
unsafe impl Send for CudaGraph {}
// SAFETY: nothing takes it by shared reference.
unsafe impl Sync for CudaGraph {}

impl CudaGraph {
    pub(super) fn new(device: &Device, raw: CUgraph, uses: Vec<CapturedUse>) -> Result<Self, CudaError> {
        // SAFETY: the graph comes from a capture that has ended.
        match unsafe { graph::instantiate(raw, CUgraphInstantiate_flags(0)) } {
            Ok(executable) => Ok(CudaGraph { device: device.clone(), uses, raw, executable }),
            Err(error) => {
                // SAFETY: it is ours and not used again.
                let _ = unsafe { graph::destroy(raw) };
                Err(CudaError::driver("make a graph", error))
            }
        }
    }

    /// Replays the launches on a stream. As a run would, it waits for work of other streams on the same plans and
    /// buffers: runs, updates, copies, and launches of other graphs.
    ///
    /// # Errors
    ///
    /// A stream of another device, [`CudaError::Capturing`] as for a run, or a failure of the driver. Nothing is
    /// launched then.
    ///
    /// # Safety
    ///
    /// All memory and kernels that the captured launches use are still valid: the tensors; the attentions, those of
    /// layers included; the plans, which may own parameter tensors; each plan's workspace, which has not been planned
    /// into again, grown, or dropped; each [`CudaKvTransform`](crate::cuda::ops::CudaKvTransform) and
    /// [`CudaBatchChecker`](crate::cuda::CudaBatchChecker), whose drops unload kernels. During this call no other
    /// thread uses these plans and buffers. Memory that was given as an address
    /// ([`TensorRef::device`](attn_core::tensor::TensorRef)) is ordered by the caller, and so is what was captured on
    /// streams that joined the capture.
    pub unsafe fn launch(&mut self, stream: &CudaStream) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        let _current = self.device.make_current()?;
        let _submission = stream.submission();
        // under a capture this graph becomes a part of another one
        if !(stream.state().is_captured() && stream.state().add_captured(self.uses.iter().cloned())) {
            self.uses.iter().try_for_each(|(memory, access)| memory.order_replay(stream.state(), *access))?;
        }
        // SAFETY: graph and stream live; the rest is the caller's promise.
        unsafe { graph::launch(self.executable, stream.raw()) }.map_err(|e| CudaError::driver("launch a graph", e))
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.make_current() {
            // SAFETY: both are ours and not used again.
            unsafe {
                let _ = graph::exec_destroy(self.executable);
                let _ = graph::destroy(self.raw);
            }
        }
    }
}
