//! Tensors, workspaces, graphs and clocks of an engine, for the CPU and CUDA alike.

use std::time::Instant;

#[cfg(feature = "cuda")]
use attn::cuda::{Device, DeviceBuffer, Event, Graph};

#[cfg(feature = "cuda")]
use attn::Dtype;
use attn::tensor::{TensorError, TensorMut, TensorRef};
use attn::{Engine, Error, Stream, Workspace};

use super::TestError;
use super::inputs::{Host, on_host};

/// More than the L2 cache of any GPU so far.
#[cfg(feature = "cuda")]
const FLUSH_BYTES: usize = 256 << 20;

/// Makes memory of an engine.
#[derive(Clone)]
pub(super) enum EngineMemory {
    Host,
    #[cfg(feature = "cuda")]
    Cuda(Device),
}

/// A tensor in memory of the engine.
pub(super) enum PlacedTensor {
    Host(Host),
    #[cfg(feature = "cuda")]
    Cuda {
        buffer: DeviceBuffer,
        dtype: Dtype,
        elements: usize,
        stream: attn::cuda::Stream,
    },
}

/// A workspace in memory with given content.
pub(super) struct DirtyWorkspace {
    // dropped before the memory
    pub(super) workspace: Workspace,
    #[cfg(feature = "cuda")]
    _memory: Option<DeviceBuffer>,
}

/// A captured run.
pub(super) struct Replay {
    #[cfg(feature = "cuda")]
    graph: Graph,
}

impl EngineMemory {
    pub(super) fn of(engine: &Engine) -> Self {
        #[cfg(feature = "cuda")]
        if let Some(device) = engine.device() {
            return EngineMemory::Cuda(device.clone());
        }
        let _ = engine;
        EngineMemory::Host
    }

    /// Copies a tensor to the engine.
    pub(super) fn put(&self, host: &Host) -> Result<PlacedTensor, TestError> {
        match self {
            EngineMemory::Host => Ok(PlacedTensor::Host(host.clone())),
            #[cfg(feature = "cuda")]
            EngineMemory::Cuda(device) => Ok(PlacedTensor::Cuda {
                buffer: DeviceBuffer::upload(device, host.bytes()).map_err(Error::from)?,
                dtype: host.dtype(),
                elements: host.len(),
                stream: attn::cuda::Stream::new(device).map_err(Error::from)?,
            }),
        }
    }

    /// Fills memory of about this size with 0xff, which is NaN and an invalid index, and frees it again.
    pub(super) fn dirty(&self, bytes: usize) -> Result<(), TestError> {
        match self {
            EngineMemory::Host => {}
            #[cfg(feature = "cuda")]
            EngineMemory::Cuda(device) => {
                let stream = attn::cuda::Stream::new(device).map_err(Error::from)?;
                let buffer = DeviceBuffer::new(device, bytes).map_err(Error::from)?;
                buffer.fill(&stream, 0xff).map_err(Error::from)?;
                stream.synchronize().map_err(Error::from)?;
            }
        }
        let _ = bytes;
        Ok(())
    }

    /// A workspace of exactly `bytes` bytes, all of them `byte`.
    pub(super) fn workspace(&self, engine: &Engine, bytes: usize, byte: u8) -> Result<DirtyWorkspace, TestError> {
        match self {
            EngineMemory::Host => {
                let _ = (bytes, byte);
                Ok(DirtyWorkspace {
                    workspace: engine.workspace(),
                    #[cfg(feature = "cuda")]
                    _memory: None,
                })
            }
            #[cfg(feature = "cuda")]
            EngineMemory::Cuda(device) => {
                let stream = attn::cuda::Stream::new(device).map_err(Error::from)?;
                let memory = DeviceBuffer::new(device, bytes).map_err(Error::from)?;
                memory.fill(&stream, byte).map_err(Error::from)?;
                stream.synchronize().map_err(Error::from)?;
                // SAFETY: the workspace is dropped before the memory, which nothing else uses.
                let workspace = unsafe { Workspace::from_raw(engine, memory.ptr(), bytes) }?;
                Ok(DirtyWorkspace { workspace, _memory: Some(memory) })
            }
        }
    }

    /// Whether `bytes` bytes can be allocated.
    pub(super) fn holds(&self, bytes: usize) -> bool {
        match self {
            EngineMemory::Host => {
                let _ = bytes;
                true
            }
            #[cfg(feature = "cuda")]
            EngineMemory::Cuda(device) => DeviceBuffer::new(device, bytes).is_ok(),
        }
    }

    /// Captures a run as a graph; `None` on the CPU.
    pub(super) fn capture(
        &self,
        stream: &Stream,
        run: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Option<Replay>, TestError> {
        #[cfg(feature = "cuda")]
        if let (EngineMemory::Cuda(_), Some(stream)) = (self, stream.as_cuda()) {
            return Ok(Some(Replay { graph: stream.capture(run)? }));
        }
        let _ = (stream, run);
        Ok(None)
    }

    /// A clock for runs on the engine.
    pub(super) fn clock(&self) -> Result<Clock, TestError> {
        match self {
            EngineMemory::Host => Ok(Clock::Host(Instant::now())),
            #[cfg(feature = "cuda")]
            EngineMemory::Cuda(device) => Ok(Clock::Cuda {
                flush: DeviceBuffer::new(device, FLUSH_BYTES).map_err(Error::from)?,
                before: Event::new(device).map_err(Error::from)?,
                after: Event::new(device).map_err(Error::from)?,
            }),
        }
    }
}

/// Times the launches between `start` and `stop`. On a GPU between two events, after overwriting the L2; on the CPU
/// wall time with warm caches.
pub(super) enum Clock {
    Host(Instant),
    #[cfg(feature = "cuda")]
    Cuda {
        flush: DeviceBuffer,
        before: Event,
        after: Event,
    },
}

impl Clock {
    pub(super) fn start(&mut self, stream: &Stream) -> Result<(), TestError> {
        match self {
            Clock::Host(started) => *started = Instant::now(),
            #[cfg(feature = "cuda")]
            Clock::Cuda { flush, before, .. } => {
                if let Some(stream) = stream.as_cuda() {
                    flush.fill(stream, 0).map_err(Error::from)?;
                    before.record(stream).map_err(Error::from)?;
                }
            }
        }
        let _ = stream;
        Ok(())
    }

    /// Milliseconds since `start`.
    pub(super) fn stop(&mut self, stream: &Stream) -> Result<f64, TestError> {
        let _ = stream;
        match self {
            Clock::Host(started) => Ok(started.elapsed().as_secs_f64() * 1e3),
            #[cfg(feature = "cuda")]
            Clock::Cuda { before, after, .. } => {
                if let Some(stream) = stream.as_cuda() {
                    after.record(stream).map_err(Error::from)?;
                }
                Ok(f64::from(after.ms_since(before).map_err(Error::from)?))
            }
        }
    }
}

impl Replay {
    pub(super) fn launch(&mut self, stream: &Stream) -> Result<(), TestError> {
        #[cfg(feature = "cuda")]
        if let Some(stream) = stream.as_cuda() {
            // SAFETY: a `Setup` owns the graph together with its plan, workspace and tensors, and never plans again
            // after the capture; so does a `Prepared` with its setups. A function that captures holds all of them and
            // updates the plan on this stream. A `SharedRun` owns graph, plan and workspace, and borrows the tensors.
            unsafe { self.graph.launch(stream) }.map_err(Error::from)?;
        }
        let _ = stream;
        Ok(())
    }
}

impl PlacedTensor {
    /// The elements from `begin` on as a tensor.
    pub(super) fn tensor(&self, begin: usize, shape: &[usize], strides: &[i64]) -> Result<TensorRef<'_>, TensorError> {
        match self {
            PlacedTensor::Host(host) => host.strided(begin, shape, strides),
            #[cfg(feature = "cuda")]
            PlacedTensor::Cuda { buffer, dtype, elements, .. } => {
                check(begin, shape, strides, *elements)?;
                let ptr = buffer.ptr() + (begin * dtype.size()) as u64;
                // SAFETY: the buffer holds every element that shape and strides reach from `begin` on. The tensor
                // borrows it, and nothing writes to inputs.
                unsafe { TensorRef::device(ptr, *dtype, shape, strides) }
            }
        }
    }

    /// [`tensor`](Self::tensor) for writing.
    pub(super) fn tensor_mut(&mut self, shape: &[usize], strides: &[i64]) -> Result<TensorMut<'_>, TensorError> {
        match self {
            PlacedTensor::Host(host) => on_host!(host, data => TensorMut::host(data, shape))?.with_strides(strides),
            #[cfg(feature = "cuda")]
            PlacedTensor::Cuda { buffer, dtype, elements, .. } => {
                check(0, shape, strides, *elements)?;
                // SAFETY: as above, and the buffer is borrowed mutably.
                unsafe { TensorMut::device(buffer.ptr(), *dtype, shape, strides) }
            }
        }
    }

    /// Sets every byte, and waits for it.
    pub(super) fn fill(&mut self, byte: u8) -> Result<(), TestError> {
        match self {
            PlacedTensor::Host(host) => on_host!(host, data => bytemuck::cast_slice_mut::<_, u8>(data).fill(byte)),
            #[cfg(feature = "cuda")]
            PlacedTensor::Cuda { buffer, stream, .. } => {
                buffer.fill(stream, byte).map_err(Error::from)?;
                stream.synchronize().map_err(Error::from)?;
            }
        }
        Ok(())
    }

    /// A copy in host memory, after everything launched on the device has finished.
    pub(super) fn get(&self) -> Result<Host, TestError> {
        match self {
            PlacedTensor::Host(host) => Ok(host.clone()),
            #[cfg(feature = "cuda")]
            PlacedTensor::Cuda { buffer, dtype, elements, .. } => {
                let mut host = Host::nan(*dtype, *elements);
                on_host!(&mut host, data => buffer.download(0, bytemuck::cast_slice_mut(data))).map_err(Error::from)?;
                Ok(host)
            }
        }
    }
}

/// Checks that the elements that shape and strides reach from `begin` on exist.
#[cfg(feature = "cuda")]
fn check(begin: usize, shape: &[usize], strides: &[i64], elements: usize) -> Result<(), TensorError> {
    let reach: i64 = shape.iter().zip(strides).map(|(&extent, &stride)| (extent as i64 - 1) * stride).sum();
    let extent = if shape.contains(&0) { begin as u64 } else { begin as u64 + reach as u64 + 1 };
    if extent <= elements as u64 { Ok(()) } else { Err(TensorError::Extent { extent, len: elements as u64 }) }
}
