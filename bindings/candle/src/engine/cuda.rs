//! Order between candle's stream and the stream that attention is launched on.

use std::sync::{Arc, Mutex, PoisonError};

use attn::Stream;
use candle_core::cuda_backend::cudarc::driver::{CudaEvent, CudaStream};
use candle_core::{CudaDevice, Error, Result};

use crate::error::IntoCandle;

/// The handle of the per-thread default stream, which is another stream on each thread.
const PER_THREAD: usize = 2;

/// candle's stream, and how attention is ordered with it.
#[derive(Debug)]
pub(super) struct Order {
    /// Borrows `theirs`, if that can be; dropped before it.
    ours: Stream,
    /// For the per-thread default stream: how to wait for each other.
    join: Option<Join>,
    theirs: Arc<CudaStream>,
}

/// Waits of a stream of our own and of candle's. Its events are recorded and waited for under the lock.
#[derive(Debug)]
struct Join {
    /// `Order::ours`, as cudarc has it.
    ours: Arc<CudaStream>,
    events: Mutex<[CudaEvent; 2]>,
}

impl Order {
    pub(super) fn new(device: &CudaDevice) -> Result<(attn::Engine, Self)> {
        let theirs = device.cuda_stream();
        let context = theirs.context();
        let engine = attn::Engine::cuda(context.ordinal() as u32).candle()?;
        if theirs.cu_stream() as usize != PER_THREAD {
            // SAFETY: candle's context is the primary one of the device, and the stream is kept until `ours` is gone.
            let ours = unsafe { attn::cudarc::stream(&engine, &theirs) }.candle()?;
            return Ok((engine, Order { ours, join: None, theirs }));
        }
        let ours = engine.stream().candle()?;
        let raw = ours.as_raw().unwrap_or_default();
        // SAFETY: it is a stream of the primary context, which `ours` keeps beside it; cudarc launches nothing on it.
        let same = unsafe { context.wrap_borrowed_stream(raw.cast()) };
        let event = || context.new_event(None).map_err(Error::wrap);
        let join = Join { ours: same, events: Mutex::new([event()?, event()?]) };
        Ok((engine, Order { ours, join: Some(join), theirs }))
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.ours
    }

    pub(super) fn theirs(&self) -> &CudaStream {
        &self.theirs
    }

    /// Launches `work` after candle's earlier work, and candle's later work after it.
    pub(super) fn launch<T>(&self, work: impl FnOnce(&Stream) -> Result<T>) -> Result<T> {
        let Some(join) = &self.join else { return work(&self.ours) };
        let events = join.events.lock().unwrap_or_else(PoisonError::into_inner);
        let [before, after] = &*events;
        before.record(&self.theirs).and_then(|()| join.ours.wait(before)).map_err(Error::wrap)?;
        let done = work(&self.ours);
        // also after an error: a capture of candle's stream has to be left as it was
        after.record(&join.ours).and_then(|()| self.theirs.wait(after)).map_err(Error::wrap)?;
        done
    }
}
