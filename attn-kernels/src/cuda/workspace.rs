//! The workspace: where a plan keeps its lists and partial states.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    uses: Mutex<Uses>,
    /// For lists that the host changes while they are on their way.
    staging: Mutex<Staging>,
}

/// Who uses the memory.
#[derive(Debug)]
struct Uses {
    /// Counts the plans put into it.
    generation: u64,
    /// Where a run may still be reading it.
    last: LastUse,
}

/// The memory for as long as it lives: launches of a run follow each other, and nothing is put there between a look at what there is and its use.
pub(super) struct Turn<'a> {
    memory: &'a Memory,
    uses: MutexGuard<'a, Uses>,
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
        let (generation, ordered) = {
            let mut turn = memory.turn();
            turn.uses.generation += 1;
            (turn.uses.generation, turn.is_ordered(stream))
        };
        // from here on no plan runs there. The turn is over: who captures such a run must not wait for this, which waits for captures
        if !ordered {
            self.device.synchronize()?;
        }
        let mut turn = memory.turn();
        if !ordered {
            turn.uses.last = LastUse::Nowhere;
        }
        let upload = stream.unwrap_or(&self.upload);
        match stream {
            Some(stream) => memory.staged(stream, blob)?,
            None => memory.buffer.write(upload, 0, blob)?, // and is waited for
        }
        memory.buffer.fill_range(upload, zeros.clone(), 0)?;
        match stream {
            Some(stream) => turn.used_on(stream),
            None => self.upload.synchronize()?,
        }
        drop(turn);
        Ok((memory.clone(), generation))
    }
}

impl Memory {
    fn over(buffer: DeviceBuffer) -> Arc<Self> {
        let staging = Mutex::new(Staging::new(buffer.device()));
        let uses = Mutex::new(Uses { generation: 0, last: LastUse::Nowhere });
        Arc::new(Memory { buffer, uses, staging })
    }

    /// Makes room for updates of so many bytes.
    pub(super) fn reserve_updates(&self, bytes: usize) -> Result<(), CudaError> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).reserve(bytes)
    }

    /// Copies lists to the start, in the order of the stream; they may be changed on return.
    fn staged(&self, stream: &Stream, lists: &[u8]) -> Result<(), CudaError> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).upload(stream, &self.buffer, lists)
    }

    fn turn(&self) -> Turn<'_> {
        Turn { memory: self, uses: self.uses.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// The memory, while it holds the plan of a generation; until the turn is over nobody else has it.
    ///
    /// # Errors
    ///
    /// [`CudaError::StalePlan`]: it holds another by now.
    pub(super) fn turn_of(&self, generation: u64) -> Result<Turn<'_>, CudaError> {
        let turn = self.turn();
        if turn.uses.generation == generation { Ok(turn) } else { Err(CudaError::StalePlan) }
    }

    pub(super) fn generation(&self) -> u64 {
        self.turn().uses.generation
    }
}

impl Turn<'_> {
    /// Whether all runs that may still read the memory are before what the stream is given next.
    fn is_ordered(&self, stream: Option<&Stream>) -> bool {
        match (self.uses.last, stream) {
            (LastUse::Nowhere, _) => true,
            (LastUse::On(last), Some(stream)) => last == stream.as_raw() as usize,
            _ => false,
        }
    }

    /// Waits for the device where they are not. For whoever has the plan to itself.
    pub(super) fn wait_unless_on(&mut self, stream: &Stream) -> Result<(), CudaError> {
        if !self.is_ordered(Some(stream)) {
            self.memory.buffer.device().synchronize()?;
            self.uses.last = LastUse::Nowhere;
        }
        Ok(())
    }

    /// Writes other lists over those of the plan that the memory holds, in the order of the stream. They may be changed on return, while the device is still
    /// to get there.
    pub(super) fn overwrite(&mut self, stream: &Stream, lists: &[u8]) -> Result<(), CudaError> {
        self.wait_unless_on(stream)?;
        self.memory.staged(stream, lists)?;
        self.used_on(stream);
        Ok(())
    }

    /// Notes that a run, or a copy, was given to a stream.
    pub(super) fn used_on(&mut self, stream: &Stream) {
        let here = LastUse::On(stream.as_raw() as usize);
        let last = self.uses.last;
        self.uses.last = if last == LastUse::Nowhere || last == here { here } else { LastUse::OnSeveral };
    }
}
