//! The workspace: where a plan keeps its lists and partial states.

use std::ops::Range;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use super::{CudaError, Device, DeviceBuffer, Stream, staging::Staging};

/// Device memory that plans are put into. It grows when a plan needs more, unless it is of a [fixed](Workspace::fixed) size, and never during a run. What is in it before
/// a plan is put there does not matter.
///
/// It holds one plan at a time: planning into it again makes the plan before stale (running that one is an error). `Send` and `Sync`; planning takes it by
/// `&mut`.
#[derive(Debug)]
pub struct Workspace {
    device: Device,
    /// Whether it may not grow.
    fixed: bool,
    /// For copies that no stream of the caller orders.
    upload: Stream,
    memory: Arc<Memory>,
}

/// The memory of a workspace; plans share it.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) buffer: DeviceBuffer,
    /// Counts the plans put into it.
    generation: AtomicU64,
    /// Where a run may still be reading it.
    last_use: Mutex<LastUse>,
    /// For lists that the host changes while they are on their way.
    staging: Mutex<Staging>,
}

/// The streams that were given runs since the device was last known to have finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastUse {
    Nowhere,
    /// The address of a `CUstream`.
    On(usize),
    OnSeveral,
}

impl Workspace {
    /// An empty workspace.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        Self::with_capacity(device, 0)
    }

    /// A workspace of so many bytes: enough for every plan whose `workspace_size` is no larger.
    ///
    /// # Errors
    ///
    /// As [`DeviceBuffer::new`].
    pub fn with_capacity(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        Self::over(DeviceBuffer::new(device, bytes)?, false)
    }

    /// As [`Workspace::with_capacity`], and it never grows: a plan that needs more is refused ([`CudaError::WorkspaceSize`]).
    ///
    /// # Errors
    ///
    /// As [`DeviceBuffer::new`].
    pub fn fixed(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        Self::over(DeviceBuffer::new(device, bytes)?, true)
    }

    /// A workspace of a fixed size in memory of somebody else: an engine that owns all memory hands out a part of it.
    ///
    /// # Errors
    ///
    /// An address that is no multiple of [`Workspace::ALIGNMENT`], or a failure of the driver.
    ///
    /// # Safety
    ///
    /// As [`DeviceBuffer::from_raw`]: the memory lives as long as this, every plan in it, and every run and replay of these, and nobody else
    /// writes it meanwhile.
    pub unsafe fn from_raw(device: &Device, ptr: u64, bytes: usize) -> Result<Self, CudaError> {
        if !ptr.is_multiple_of(Self::ALIGNMENT) {
            return Err(CudaError::WorkspaceAddress { ptr });
        }
        // SAFETY: the caller's promise.
        Self::over(unsafe { DeviceBuffer::from_raw(device, ptr, bytes) }, true)
    }

    /// What the address of a workspace is a multiple of, in bytes.
    pub const ALIGNMENT: u64 = 256;

    fn over(buffer: DeviceBuffer, fixed: bool) -> Result<Self, CudaError> {
        let device = buffer.device().clone();
        Ok(Workspace { upload: Stream::new(&device)?, device, fixed, memory: Memory::over(buffer) })
    }

    /// Whether it never grows.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.buffer.len()
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Room for a plan of `bytes`, of which the first are `blob`, and those of `zeros` 0. Gives the memory and the plan's generation.
    ///
    /// With a stream, the copy is in its order. Without one, this returns when the copy has arrived. Where a run on
    /// another stream may still read the memory, it waits for the device first.
    pub(super) fn put(
        &mut self,
        stream: Option<&Stream>,
        blob: &[u8],
        zeros: &Range<usize>,
        bytes: usize,
    ) -> Result<(Arc<Memory>, u64), CudaError> {
        if let Some(stream) = stream {
            stream.refuse_capture("upload a plan")?;
        }
        if bytes > self.capacity() {
            if self.fixed {
                return Err(CudaError::WorkspaceSize { need: bytes, have: self.capacity() });
            }
            // a plan that still uses the old memory keeps it
            self.memory = Memory::over(DeviceBuffer::new(&self.device, bytes)?);
        }
        let memory = &self.memory;
        let generation = memory.generation.fetch_add(1, Ordering::AcqRel) + 1;
        memory.wait_unless_on(stream)?;
        let upload = stream.unwrap_or(&self.upload);
        match stream {
            Some(stream) => memory.staged(stream, blob)?,
            None => memory.buffer.write(upload, 0, blob)?, // and is waited for
        }
        memory.buffer.fill_range(upload, zeros.clone(), 0)?;
        match stream {
            Some(stream) => memory.used_on(stream),
            None => self.upload.synchronize()?,
        }
        Ok((memory.clone(), generation))
    }
}

impl Memory {
    fn over(buffer: DeviceBuffer) -> Arc<Self> {
        let staging = Mutex::new(Staging::new(buffer.device()));
        Arc::new(Memory { buffer, generation: AtomicU64::new(0), last_use: Mutex::new(LastUse::Nowhere), staging })
    }

    /// Makes room for updates of so many bytes.
    pub(super) fn reserve_updates(&self, bytes: usize) -> Result<(), CudaError> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).reserve(bytes)
    }

    /// Copies lists to the start, in the order of the stream; they may be changed on return.
    fn staged(&self, stream: &Stream, lists: &[u8]) -> Result<(), CudaError> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).upload(stream, &self.buffer, lists)
    }

    /// Waits for the device where a run may still read the memory that is not before what the stream is given next.
    pub(super) fn wait_unless_on(&self, stream: Option<&Stream>) -> Result<(), CudaError> {
        let mut last_use = self.last_use.lock().unwrap_or_else(PoisonError::into_inner);
        let ordered = match (*last_use, stream) {
            (LastUse::Nowhere, _) => true,
            (LastUse::On(last), Some(stream)) => last == stream.as_raw() as usize,
            _ => false,
        };
        if !ordered {
            self.buffer.device().synchronize()?;
            *last_use = LastUse::Nowhere;
        }
        Ok(())
    }

    /// Writes other lists over those of the plan that the memory holds, in the order of the stream. They may be changed on return, while the device is still
    /// to get there.
    pub(super) fn overwrite(&self, stream: &Stream, lists: &[u8]) -> Result<(), CudaError> {
        self.wait_unless_on(Some(stream))?;
        self.staged(stream, lists)?;
        self.used_on(stream);
        Ok(())
    }

    /// Notes that a run, or a copy, was given to a stream.
    pub(super) fn used_on(&self, stream: &Stream) {
        let here = LastUse::On(stream.as_raw() as usize);
        let mut last = self.last_use.lock().unwrap_or_else(PoisonError::into_inner);
        *last = if *last == LastUse::Nowhere || *last == here { here } else { LastUse::OnSeveral };
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}
