//! Tensors, workspaces, graphs and clocks of an engine, for the CPU and CUDA alike.

use std::time::Instant;

#[cfg(feature = "cuda")]
use attn::cuda::Event;

use attn::tensor::{TensorError, TensorMut, TensorRef};
use attn::{DeviceBuffer, Dtype, Engine, Error, Graph, Stream, Workspace};

use super::TestError;
use super::inputs::{Host, on_host};

/// More than the L2 cache of any GPU so far.
#[cfg(feature = "cuda")]
const FLUSH_BYTES: usize = 256 << 20;

/// Makes memory of an engine.
#[derive(Clone)]
pub(super) struct EngineMemory {
    engine: Engine,
}

/// A tensor in memory of the engine.
pub(super) enum PlacedTensor {
    Host(Host),
    Device { buffer: DeviceBuffer, engine: Engine, stream: Stream },
}

/// A workspace in memory with given content.
pub(super) struct DirtyWorkspace {
    // dropped before the memory
    pub(super) workspace: Workspace,
    _memory: Option<DeviceBuffer>,
}

/// A captured run.
pub(super) struct Replay {
    graph: Graph,
}

impl EngineMemory {
    pub(super) fn of(engine: &Engine) -> Self {
        EngineMemory { engine: engine.clone() }
    }

    /// Copies a tensor to the engine.
    pub(super) fn put(&self, host: &Host) -> Result<PlacedTensor, TestError> {
        if self.engine.is_cpu() {
            return Ok(PlacedTensor::Host(host.clone()));
        }
        let (buffer, stream) = (on_host!(host, data => self.engine.upload(data))?, self.engine.stream()?);
        Ok(PlacedTensor::Device { buffer, engine: self.engine.clone(), stream })
    }

    /// Memory of `bytes` bytes, all of them `byte`.
    fn filled(&self, bytes: usize, byte: u8) -> Result<DeviceBuffer, TestError> {
        let (mut buffer, stream) = (self.engine.alloc(Dtype::E4m3, bytes)?, self.engine.stream()?);
        buffer.fill(&stream, byte)?;
        stream.synchronize()?;
        Ok(buffer)
    }

    /// Fills memory of about this size with 0xff, which is NaN and an invalid index, and frees it again.
    pub(super) fn dirty(&self, bytes: usize) -> Result<(), TestError> {
        self.filled(bytes, 0xff).map(drop)
    }

    /// A workspace of exactly `bytes` bytes, all of them `byte`; plans on the CPU take none.
    pub(super) fn workspace(&self, bytes: usize, byte: u8) -> Result<DirtyWorkspace, TestError> {
        let memory = if self.engine.is_cpu() { None } else { Some(self.filled(bytes, byte)?) };
        #[cfg(feature = "cuda")]
        if let Some(ptr) = memory.as_ref().and_then(DeviceBuffer::device_ptr) {
            // SAFETY: the workspace is dropped before the memory, which nothing else uses.
            let workspace = unsafe { Workspace::from_raw(&self.engine, ptr, bytes) }?;
            return Ok(DirtyWorkspace { workspace, _memory: memory });
        }
        Ok(DirtyWorkspace { workspace: self.engine.workspace(), _memory: memory })
    }

    /// Whether `bytes` bytes can be allocated.
    pub(super) fn holds(&self, bytes: usize) -> bool {
        self.engine.is_cpu() || self.engine.alloc(Dtype::E4m3, bytes).is_ok()
    }

    /// Captures a run as a graph; `None` on the CPU.
    pub(super) fn capture(
        &self,
        stream: &Stream,
        run: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Option<Replay>, TestError> {
        if self.engine.is_cpu() {
            return Ok(None);
        }
        Ok(Some(Replay { graph: Graph::capture(stream, run)? }))
    }

    /// A clock for runs on the engine.
    pub(super) fn clock(&self) -> Result<Clock, TestError> {
        #[cfg(feature = "cuda")]
        if let Some(device) = self.engine.device() {
            return Ok(Clock::Device {
                flush: self.engine.alloc(Dtype::E4m3, FLUSH_BYTES)?,
                before: Event::new(device).map_err(Error::from)?,
                after: Event::new(device).map_err(Error::from)?,
            });
        }
        Ok(Clock::Host(Instant::now()))
    }
}

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
    pub(super) fn start(&mut self, stream: &Stream) -> Result<(), TestError> {
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
    pub(super) fn stop(&mut self, stream: &Stream) -> Result<f64, TestError> {
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

impl Replay {
    pub(super) fn launch(&mut self, stream: &Stream) -> Result<(), TestError> {
        // SAFETY: a `Setup` owns the graph together with its plan, workspace and tensors, and never plans again after
        // the capture; so does a `Prepared` with its setups. A function that captures holds all of them and updates the
        // plan on this stream. A `SharedRun` owns graph, plan and workspace, and borrows the tensors. On a device the
        // closure is not called.
        Ok(unsafe { self.graph.replay(stream, || Ok(())) }?)
    }
}

impl PlacedTensor {
    /// The elements from `begin` on as a tensor.
    pub(super) fn tensor(&self, begin: usize, shape: &[usize], strides: &[i64]) -> Result<TensorRef<'_>, TensorError> {
        match self {
            PlacedTensor::Host(host) => host.strided(begin, shape, strides),
            PlacedTensor::Device { buffer, .. } => {
                check(begin, shape, strides, buffer.elements())?;
                let ptr = buffer.device_ptr().unwrap_or(0) + (begin * buffer.dtype().size()) as u64;
                // SAFETY: the buffer holds every element that shape and strides reach from `begin` on. The tensor
                // borrows it, and nothing writes to inputs.
                unsafe { TensorRef::device(ptr, buffer.dtype(), shape, strides) }
            }
        }
    }

    /// [`tensor`](Self::tensor) for writing.
    pub(super) fn tensor_mut(&mut self, shape: &[usize], strides: &[i64]) -> Result<TensorMut<'_>, TensorError> {
        match self {
            PlacedTensor::Host(host) => on_host!(host, data => TensorMut::host(data, shape))?.with_strides(strides),
            PlacedTensor::Device { buffer, .. } => {
                check(0, shape, strides, buffer.elements())?;
                // SAFETY: as above, and the buffer is borrowed mutably.
                unsafe { TensorMut::device(buffer.device_ptr().unwrap_or(0), buffer.dtype(), shape, strides) }
            }
        }
    }

    /// Sets every byte, and waits for it.
    pub(super) fn fill(&mut self, byte: u8) -> Result<(), TestError> {
        match self {
            PlacedTensor::Host(host) => on_host!(host, data => bytemuck::cast_slice_mut::<_, u8>(data).fill(byte)),
            PlacedTensor::Device { buffer, stream, .. } => {
                buffer.fill(stream, byte)?;
                stream.synchronize()?;
            }
        }
        Ok(())
    }

    /// A copy in host memory, after everything launched on the device has finished.
    pub(super) fn get(&self) -> Result<Host, TestError> {
        match self {
            PlacedTensor::Host(host) => Ok(host.clone()),
            PlacedTensor::Device { buffer, engine, .. } => {
                let mut host = Host::nan(buffer.dtype(), buffer.elements());
                on_host!(&mut host, data => *data = engine.download(buffer)?);
                Ok(host)
            }
        }
    }
}

/// Checks that the elements that shape and strides reach from `begin` on exist.
fn check(begin: usize, shape: &[usize], strides: &[i64], elements: usize) -> Result<(), TensorError> {
    let reach: i64 = shape.iter().zip(strides).map(|(&extent, &stride)| (extent as i64 - 1) * stride).sum();
    let extent = if shape.contains(&0) { begin as u64 } else { begin as u64 + reach as u64 + 1 };
    if extent <= elements as u64 { Ok(()) } else { Err(TensorError::Extent { extent, len: elements as u64 }) }
}
