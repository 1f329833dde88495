//! Tensors, workspaces and graphs of an engine, for the CPU and CUDA alike.

use attn::{DeviceBuffer, Dtype, Engine, Error, Graph, Stream, Workspace};
use attn_core::tensor::{TensorError, TensorMut, TensorRef};

use super::TestError;
use super::host::{Host, on_host};

/// A tensor in memory of the engine.
pub(super) enum PlacedTensor {
    Host(Host),
    Device { buffer: DeviceBuffer, engine: Engine },
}

/// A workspace in memory with given content.
pub(super) struct DirtyWorkspace {
    // dropped before the memory
    pub(super) workspace: Workspace,
    _memory: Option<DeviceBuffer>,
}

/// Copies a tensor to the engine.
pub(super) fn put(engine: &Engine, host: &Host) -> Result<PlacedTensor, TestError> {
    if engine.is_cpu() {
        return Ok(PlacedTensor::Host(host.clone()));
    }
    Ok(PlacedTensor::Device {
        buffer: on_host!(host, data => engine.upload(data), bytes => engine.upload_bytes(bytes))?,
        engine: engine.clone(),
    })
}

/// Fills memory with a byte, and waits for it.
fn fill(buffer: &mut DeviceBuffer, engine: &Engine, byte: u8) -> Result<(), TestError> {
    let stream = engine.stream()?;
    buffer.fill(&stream, byte)?;
    Ok(stream.synchronize()?)
}

/// Memory of `bytes` bytes, all of them `byte`.
fn filled(engine: &Engine, bytes: usize, byte: u8) -> Result<DeviceBuffer, TestError> {
    let mut buffer = engine.alloc(Dtype::E4m3, bytes)?;
    fill(&mut buffer, engine, byte)?;
    Ok(buffer)
}

/// Fills memory of about this size with 0xff, which is NaN and an invalid index, and frees it again.
pub(super) fn dirty(engine: &Engine, bytes: usize) -> Result<(), TestError> {
    filled(engine, bytes, 0xff).map(drop)
}

/// A workspace of exactly `bytes` bytes, all of them `byte`; plans on the CPU take none.
pub(super) fn workspace(engine: &Engine, bytes: usize, byte: u8) -> Result<DirtyWorkspace, TestError> {
    let memory = if engine.is_cpu() { None } else { Some(filled(engine, bytes, byte)?) };
    #[cfg(feature = "cuda")]
    if let Some(ptr) = memory.as_ref().and_then(DeviceBuffer::device_ptr) {
        // SAFETY: the workspace is dropped before the memory, which nothing else uses.
        let workspace = unsafe { Workspace::from_raw(engine, ptr, bytes) }?;
        return Ok(DirtyWorkspace { workspace, _memory: memory });
    }
    Ok(DirtyWorkspace { workspace: engine.workspace(), _memory: memory })
}

/// Whether `bytes` bytes can be allocated.
pub(super) fn holds(engine: &Engine, bytes: usize) -> bool {
    engine.is_cpu() || engine.alloc(Dtype::E4m3, bytes).is_ok()
}

/// Launches the graph that was captured of `run`, or without a graph `run` itself.
pub(super) fn launch(
    graph: Option<&mut Graph>,
    stream: &Stream,
    run: impl FnOnce() -> Result<(), Error>,
) -> Result<(), TestError> {
    let done = match graph {
        // SAFETY: a `Setup` owns the graph together with its plan, workspace and tensors, and never plans again after
        // the capture; so does a `Prepared` with its setups. A function that captures holds all of them and updates the
        // plan on this stream. A `SharedRun` owns graph, plan and workspace, and borrows the tensors.
        Some(graph) => unsafe { graph.replay(stream, run) },
        None => run(),
    };
    Ok(done?)
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
            PlacedTensor::Host(host) => host.tensor_mut(shape)?.with_strides(strides),
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
            PlacedTensor::Host(host) => host.bytes_mut().fill(byte),
            PlacedTensor::Device { buffer, engine } => fill(buffer, engine, byte)?,
        }
        Ok(())
    }

    /// A copy in host memory, after everything launched on the device has finished.
    pub(super) fn get(&self) -> Result<Host, TestError> {
        match self {
            PlacedTensor::Host(host) => Ok(host.clone()),
            PlacedTensor::Device { buffer, engine } => {
                Ok(Host::of_bytes(buffer.dtype(), &engine.download_bytes(buffer)?))
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
