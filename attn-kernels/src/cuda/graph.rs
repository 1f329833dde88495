//! CUDA graphs: captured launches that are replayed.

use cudarc::driver::{
    result::graph,
    sys::{CUgraph, CUgraphExec, CUgraphInstantiate_flags},
};

use super::{CudaError, Device, Stream};

/// Captured launches. All memory that they access, including plans and workspaces, must outlive the graph. `Send` and
/// `Sync`.
#[derive(Debug)]
pub struct Graph {
    device: Device,
    raw: CUgraph,
    executable: CUgraphExec,
}

// SAFETY: the driver allows a graph in any thread, one at a time; `launch` takes `&mut self`.
unsafe impl Send for Graph {}
// SAFETY: nothing takes it by shared reference.
unsafe impl Sync for Graph {}

impl Graph {
    pub(super) fn new(device: &Device, raw: CUgraph) -> Result<Self, CudaError> {
        // SAFETY: the graph comes from a capture that has ended.
        match unsafe { graph::instantiate(raw, CUgraphInstantiate_flags(0)) } {
            Ok(executable) => Ok(Graph { device: device.clone(), raw, executable }),
            Err(error) => {
                // SAFETY: it is ours and not used again.
                let _ = unsafe { graph::destroy(raw) };
                Err(CudaError::driver("make a graph", error))
            }
        }
    }

    /// Replays the launches on a stream.
    ///
    /// # Errors
    ///
    /// A stream of another device, or a failure of the driver.
    ///
    /// # Safety
    ///
    /// All memory that the captured launches access is still valid: the tensors, the attention, and each plan's
    /// workspace, which has not been planned into again, grown, or dropped. If a plan was given another batch in the
    /// meantime ([`Plan::update`](super::Plan::update)), that was in the order of this stream.
    pub unsafe fn launch(&mut self, stream: &Stream) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        let _current = self.device.make_current()?;
        // SAFETY: graph and stream live; the rest is the caller's promise.
        unsafe { graph::launch(self.executable, stream.raw()) }.map_err(|e| CudaError::driver("launch a graph", e))
    }
}

impl Drop for Graph {
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
