//! Stream capture: the launches on a stream become a graph.

use std::mem::ManuallyDrop;

use cudarc::driver::result::{self, stream};
use cudarc::driver::sys::{CUgraph, CUstreamCaptureMode};

use super::stream_state::CapturedUse;
use crate::cuda::{CudaError, CudaGraph, CudaStream};

impl CudaStream {
    /// Captures what `work` launches on the stream into a graph, instead of running it. The capture ends whatever
    /// `work` returns. Meanwhile other threads that synchronise with the device (allocations, downloads, some drops)
    /// wait for the capture; in `work` itself they return an error. What is dropped in `work` is freed afterwards.
    ///
    /// # Errors
    ///
    /// The errors of `work`, and work that cannot be captured.
    pub fn capture<E: From<CudaError>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<CudaGraph, E> {
        let captured = self.recorded(work);
        self.device().free_released();
        captured
    }

    fn recorded<E: From<CudaError>>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<CudaGraph, E> {
        let _capture = self.device().captures().capture();
        self.begin_capture()?;
        let recording = Recording(self);
        // `work` runs with the context of the caller
        work()?;
        let _current = self.device().make_current()?;
        let (graph, uses) = recording.end()?;
        Ok(CudaGraph::new(self.device(), graph, uses)?)
    }

    fn begin_capture(&self) -> Result<(), CudaError> {
        let _current = self.device().make_current()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.state().begin_capture(|| {
            // SAFETY: the stream lives.
            unsafe { stream::begin_capture(self.raw(), mode) }.map_err(|e| CudaError::driver("begin a capture", e))
        })
    }
}

/// A capture in progress. Dropping it ends the capture and discards the graph.
struct Recording<'a>(&'a CudaStream);

impl Recording<'_> {
    /// The graph, and the memory that it uses.
    fn end(self) -> Result<(CUgraph, Vec<CapturedUse>), CudaError> {
        let stream = ManuallyDrop::new(self).0;
        // SAFETY: a capture is under way.
        let (graph, uses) = stream.state().end_capture(|| unsafe { stream::end_capture(stream.raw()) });
        Ok((graph.map_err(|e| CudaError::driver("end a capture", e))?, uses))
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let Ok(_current) = self.0.device().make_current() else { return };
        // SAFETY: a capture is under way.
        if let (Ok(graph), _) = self.0.state().end_capture(|| unsafe { stream::end_capture(self.0.raw()) })
            && !graph.is_null()
        {
            // SAFETY: it is ours and not used again.
            let _ = unsafe { result::graph::destroy(graph) };
        }
    }
}
