//! The workspace: device memory for the work list and partial states of a plan.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::staging::CudaStaging;
use crate::cuda::alignment::WORKSPACE_ALIGNMENT;
use crate::cuda::driver::capture_lock::refuse_capture;
use crate::cuda::driver::captured;
use crate::cuda::driver::uses::Access;
use crate::cuda::{CudaBuffer, CudaError, CudaStream, Device};

/// Device memory for a plan. It grows when a plan needs more, unless its size is [fixed](CudaWorkspace::fixed), and
/// never during a run. It needs no initialisation.
///
/// It holds one plan at a time: planning into it again makes the previous plan stale, and running a stale plan is an
/// error. `Send` and `Sync`; planning takes it by `&mut`.
#[derive(Debug)]
pub struct CudaWorkspace {
    device: Device,
    /// Whether the size is fixed.
    fixed: bool,
    /// The stream for uploads without a stream of the caller.
    upload: CudaStream,
    memory: Arc<WorkspaceMemory>,
}

/// The memory of a workspace; plans share it.
#[derive(Debug)]
pub(in crate::cuda) struct WorkspaceMemory {
    pub(in crate::cuda) buffer: CudaBuffer,
    /// Counts the plans uploaded to the memory.
    generation: Mutex<u64>,
    /// Staging for uploads, so that the host may overwrite their source at once.
    staging: Mutex<CudaStaging>,
}

/// Exclusive use of the memory: no other run or upload comes in between while it lives.
pub(in crate::cuda) struct MemoryLock<'a> {
    memory: &'a WorkspaceMemory,
    generation: MutexGuard<'a, u64>,
}

impl CudaWorkspace {
    /// An empty workspace.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        Self::with_capacity(device, 0)
    }

    /// A workspace of `bytes` bytes: enough for every plan whose `workspace_size` is no larger.
    ///
    /// # Errors
    ///
    /// The errors of [`CudaBuffer::new`].
    pub fn with_capacity(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        Self::over(CudaBuffer::new(device, bytes)?, false)
    }

    /// A workspace that never grows, unlike one of [`CudaWorkspace::with_capacity`]: a plan that needs more is refused
    /// ([`CudaError::WorkspaceSize`]).
    ///
    /// # Errors
    ///
    /// The errors of [`CudaBuffer::new`].
    pub fn fixed(device: &Device, bytes: usize) -> Result<Self, CudaError> {
        Self::over(CudaBuffer::new(device, bytes)?, true)
    }

    /// A workspace of a fixed size in memory that the caller owns, for an engine that manages all device memory.
    ///
    /// # Errors
    ///
    /// An address that is no multiple of [`CudaWorkspace::ALIGNMENT`], or a failure of the driver.
    ///
    /// # Safety
    ///
    /// What [`CudaBuffer::from_raw`] asks: the memory outlives this object, every plan in it, and every run and replay
    /// of these, and nothing else writes it meanwhile.
    pub unsafe fn from_raw(device: &Device, ptr: u64, bytes: usize) -> Result<Self, CudaError> {
        if !ptr.is_multiple_of(Self::ALIGNMENT) {
            return Err(CudaError::WorkspaceAddress { ptr });
        }
        // SAFETY: the caller's promise.
        Self::over(unsafe { CudaBuffer::from_raw(device, ptr, bytes) }, true)
    }

    /// The alignment of a workspace, in bytes.
    pub const ALIGNMENT: u64 = WORKSPACE_ALIGNMENT;

    fn over(buffer: CudaBuffer, fixed: bool) -> Result<Self, CudaError> {
        let device = buffer.device().clone();
        Ok(CudaWorkspace { upload: CudaStream::new(&device)?, device, fixed, memory: WorkspaceMemory::over(buffer) })
    }

    /// Whether the size is fixed.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// The size in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.buffer.len()
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Uploads a plan that takes `bytes` bytes: `blob` to the start, and 0 to `zeros`. Returns the memory and the
    /// generation of the plan.
    ///
    /// With a stream, the copy runs in the order of the stream. Without one, this returns when the copy has finished.
    /// Where runs on other streams may still read the memory, the copy comes after them.
    pub(in crate::cuda) fn upload_plan(
        &mut self,
        stream: Option<&CudaStream>,
        blob: &[u8],
        zeros: &Range<usize>,
        bytes: usize,
    ) -> Result<(Arc<WorkspaceMemory>, u64), CudaError> {
        match stream {
            Some(stream) => stream.refuse_capture("upload a plan")?,
            None => refuse_capture("wait for the upload of a plan")?,
        }
        // a graph of another library replays the plan that is there
        let is_captured = captured::is_kept(&self.memory);
        if bytes > self.capacity() || is_captured {
            match self.fixed {
                true if is_captured => return Err(CudaError::CapturedWorkspace),
                true => return Err(CudaError::WorkspaceSize { need: bytes, have: self.capacity() }),
                // a plan that still uses the old memory keeps it alive
                false => self.memory = WorkspaceMemory::over(CudaBuffer::new(&self.device, bytes)?),
            }
        }
        let memory = &self.memory;
        let mut lock = memory.lock();
        *lock.generation += 1; // refuses runs of the previous plan
        let upload = stream.unwrap_or(&self.upload);
        match stream {
            Some(stream) => memory.staged(stream, blob)?,
            None => memory.buffer.write_shared(upload, 0, blob)?, // synchronised below
        }
        memory.buffer.fill_shared(upload, zeros.clone(), 0)?;
        if stream.is_none() {
            self.upload.synchronize()?;
            memory.buffer.uses().clear(); // the upload came after all of them
        }
        let generation = *lock.generation;
        drop(lock);
        Ok((memory.clone(), generation))
    }
}

impl WorkspaceMemory {
    fn over(buffer: CudaBuffer) -> Arc<Self> {
        let staging = Mutex::new(CudaStaging::new(buffer.device()));
        Arc::new(WorkspaceMemory { buffer, generation: Mutex::new(0), staging })
    }

    /// Allocates staging memory for updates of `bytes` bytes.
    pub(in crate::cuda) fn reserve_updates(&self, bytes: usize) -> Result<(), CudaError> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).reserve(bytes)
    }

    /// Copies lists to the start of the memory, in the order of the stream. They may be changed on return.
    fn staged(&self, stream: &CudaStream, lists: &[u8]) -> Result<(), CudaError> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner).upload_shared(stream, &self.buffer, lists)
    }

    fn lock(&self) -> MemoryLock<'_> {
        MemoryLock { memory: self, generation: self.generation.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Locks the memory for the plan of a generation.
    ///
    /// # Errors
    ///
    /// [`CudaError::StalePlan`] if it holds another plan.
    pub(in crate::cuda) fn lock_for(&self, generation: u64) -> Result<MemoryLock<'_>, CudaError> {
        let lock = self.lock();
        if *lock.generation == generation { Ok(lock) } else { Err(CudaError::StalePlan) }
    }

    pub(in crate::cuda) fn generation(&self) -> u64 {
        *self.lock().generation
    }
}

impl MemoryLock<'_> {
    /// Orders the next work of the stream after earlier work on the memory, and records it.
    pub(in crate::cuda) fn order(&self, stream: &CudaStream) -> Result<(), CudaError> {
        self.memory.buffer.uses().order(stream.state(), Access::Write)
    }

    /// Overwrites the work list of the plan, in the order of the stream. `lists` may be changed on return.
    pub(in crate::cuda) fn overwrite(&self, stream: &CudaStream, lists: &[u8]) -> Result<(), CudaError> {
        self.memory.staged(stream, lists)
    }
}
