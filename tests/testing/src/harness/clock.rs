//! The clock of timings, for the CPU and CUDA alike.

use std::time::Instant;

#[cfg(feature = "cuda")]
use attn::{DeviceBuffer, Dtype, Error, cuda::Event};
use attn::{Engine, Stream};

use crate::TestError;

/// More than the L2 cache of any GPU so far.
#[cfg(feature = "cuda")]
const FLUSH_BYTES: usize = 256 << 20;

/// Times the launches between `start` and `stop`. On a GPU between two events, after overwriting the L2; on the CPU
/// wall time with warm caches.
pub(super) enum Clock {
    Host(Instant),
    #[cfg(feature = "cuda")]
    Device {
        flush: DeviceBuffer,
        before: Event,
        after: Event,
    },
}

impl Clock {
    /// A clock for runs on the engine.
    pub(super) fn new(engine: &Engine) -> Result<Self, TestError> {
        #[cfg(feature = "cuda")]
        if let Some(device) = engine.device() {
            return Ok(Clock::Device {
                flush: engine.alloc(Dtype::E4m3, FLUSH_BYTES)?,
                before: Event::new(device).map_err(Error::from)?,
                after: Event::new(device).map_err(Error::from)?,
            });
        }
        let _ = engine;
        Ok(Clock::Host(Instant::now()))
    }

    /// Median milliseconds of `reps` launches, after `warm` warm-up launches.
    pub(super) fn median_ms(
        &mut self,
        stream: &Stream,
        reps: usize,
        warm: usize,
        mut launch: impl FnMut() -> Result<(), TestError>,
    ) -> Result<f64, TestError> {
        (0..warm).try_for_each(|_| launch())?;
        stream.synchronize()?;
        let mut timed = || {
            self.start(stream)?;
            launch()?;
            self.stop(stream)
        };
        let mut ms = (0..reps.max(1)).map(|_| timed()).collect::<Result<Vec<_>, _>>()?;
        ms.sort_by(f64::total_cmp);
        Ok(ms[ms.len() / 2])
    }

    fn start(&mut self, stream: &Stream) -> Result<(), TestError> {
        let _ = stream;
        match self {
            Clock::Host(started) => *started = Instant::now(),
            #[cfg(feature = "cuda")]
            Clock::Device { flush, before, .. } => {
                flush.fill(stream, 0)?;
                stream.record(before)?;
            }
        }
        Ok(())
    }

    /// Milliseconds since `start`.
    fn stop(&mut self, stream: &Stream) -> Result<f64, TestError> {
        let _ = stream;
        match self {
            Clock::Host(started) => Ok(started.elapsed().as_secs_f64() * 1e3),
            #[cfg(feature = "cuda")]
            Clock::Device { before, after, .. } => {
                stream.record(after)?;
                Ok(f64::from(after.ms_since(before).map_err(Error::from)?))
            }
        }
    }
}
