//! Workspaces: the memory of plans.

use crate::backend::{Backend, CudaWorkspace, Device, map_backend, on_backend};
use crate::{Engine, Error};

/// The memory of a plan, made by [`Engine::workspace`]: work lists, partial states and counters. It grows when a plan
/// needs more, unless its size is fixed ([`Workspace::fixed`], [`Workspace::from_raw`]), and never during a run. Its
/// previous content does not matter.
///
/// It holds one plan at a time. Planning into it again makes the previous plan stale, and running a stale plan is an
/// error. On the CPU a plan keeps its own lists, and nothing becomes stale. `Send` and `Sync`; planning takes it by
/// `&mut`.
#[derive(Debug)]
pub struct Workspace {
    backend: Backend<(), DeviceWorkspace>,
}

/// A workspace on a CUDA device, made by the first plan or by [`Workspace::reserve`].
#[derive(Debug)]
struct DeviceWorkspace {
    device: Device,
    memory: Option<CudaWorkspace>,
}

impl Workspace {
    pub(crate) fn empty(engine: &Engine) -> Self {
        let backend = map_backend!(&engine.backend, {
            Cpu(()) => (),
            Cuda(device) => DeviceWorkspace { device: device.clone(), memory: None },
        });
        Workspace { backend }
    }

    /// A workspace of `bytes` bytes that never grows: a plan that needs more is an error and changes nothing.
    /// [`Attention::workspace_size`](crate::Attention::workspace_size) gives the exact size of a plan.
    /// On the CPU plans need no memory.
    ///
    /// # Errors
    ///
    /// Out of memory.
    pub fn fixed(engine: &Engine, bytes: usize) -> Result<Self, Error> {
        let backend = map_backend!(&engine.backend, {
            Cpu(()) => (),
            Cuda(device) => DeviceWorkspace::over(CudaWorkspace::fixed(device, bytes)?),
        });
        Ok(Workspace { backend })
    }

    /// A workspace of a fixed size in device memory that the caller owns, for engines that manage all memory
    /// themselves.
    ///
    /// # Errors
    ///
    /// An address that is not a multiple of 256 bytes, or an engine that is the CPU.
    ///
    /// # Safety
    ///
    /// `ptr` addresses `bytes` bytes of the engine's device. They outlive the
    /// workspace, every plan in it, and every run and replay of these. Nothing else writes them meanwhile.
    #[cfg(feature = "cuda")]
    pub unsafe fn from_raw(engine: &Engine, ptr: u64, bytes: usize) -> Result<Self, Error> {
        // SAFETY: the caller guarantees it.
        let memory = unsafe { CudaWorkspace::from_raw(engine.backend.cuda_for("workspace")?, ptr, bytes) }?;
        Ok(Workspace { backend: Backend::Cuda(DeviceWorkspace::over(memory)) })
    }

    /// The size in bytes of its device memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        on_backend!(&self.backend, {
            Cpu(()) => 0,
            Cuda(workspace) => workspace.memory.as_ref().map_or(0, CudaWorkspace::capacity),
        })
    }

    /// Grows to at least `bytes` bytes now rather than when planning. A plan in the workspace keeps the old memory and
    /// stays valid.
    ///
    /// # Errors
    ///
    /// Out of memory, or a workspace of a fixed size.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes <= self.capacity() {
            return Ok(());
        }
        on_backend!(&mut self.backend, {
            Cpu(()) => Ok(()),
            Cuda(workspace) => workspace.reserve(bytes),
        })
    }

    /// The workspace on the CUDA device.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&mut self) -> Result<&mut CudaWorkspace, Error> {
        self.backend.cuda_mut("workspace")?.memory()
    }

    pub(crate) fn cpu(&self) -> Result<(), Error> {
        self.backend.cpu("workspace").copied()
    }
}

#[cfg(feature = "cuda")]
impl DeviceWorkspace {
    fn over(memory: CudaWorkspace) -> Self {
        DeviceWorkspace { device: memory.device().clone(), memory: Some(memory) }
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), Error> {
        if let Some(fixed) = self.memory.as_ref().filter(|memory| memory.is_fixed()) {
            return Err(attn_kernels::cuda::CudaError::WorkspaceSize { need: bytes, have: fixed.capacity() }.into());
        }
        self.memory = Some(CudaWorkspace::with_capacity(&self.device, bytes)?);
        Ok(())
    }

    fn memory(&mut self) -> Result<&mut CudaWorkspace, Error> {
        let made = match self.memory.take() {
            Some(made) => made,
            None => CudaWorkspace::new(&self.device)?,
        };
        Ok(self.memory.insert(made))
    }
}
