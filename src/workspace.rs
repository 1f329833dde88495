//! Workspaces: the memory of plans.

#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{Engine, Error, engine::Backend};

/// The memory of a plan, made by [`Engine::workspace`]: work lists, partial states and counters. It grows when a plan
/// needs more, unless its size is fixed ([`Workspace::fixed`], [`Workspace::from_raw`]), and never during a run. Its
/// previous content does not matter.
///
/// It holds one plan at a time. Planning into it again makes the previous plan stale, and running a stale plan is an
/// error. On the CPU a plan keeps its own lists, and nothing becomes stale. `Send` and `Sync`; planning takes it by
/// `&mut`.
#[derive(Debug)]
pub struct Workspace {
    backend: WorkspaceBackend,
}

#[derive(Debug)]
enum WorkspaceBackend {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda {
        device: cuda::Device,
        workspace: Option<cuda::Workspace>,
    },
}

impl Engine {
    /// An empty workspace. Planning grows it.
    #[must_use]
    pub fn workspace(&self) -> Workspace {
        Workspace::new(self)
    }
}

impl Workspace {
    pub(crate) fn new(engine: &Engine) -> Self {
        let backend = match &engine.backend {
            Backend::Cpu => WorkspaceBackend::Cpu,
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => WorkspaceBackend::Cuda { device: device.clone(), workspace: None },
        };
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
        let backend = match &engine.backend {
            Backend::Cpu => WorkspaceBackend::Cpu,
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => WorkspaceBackend::Cuda {
                device: device.clone(),
                workspace: Some(cuda::Workspace::fixed(device, bytes)?),
            },
        };
        let _ = bytes;
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
    /// As [`cuda::Workspace::from_raw`]: `ptr` addresses `bytes` bytes of the engine's device. They outlive the
    /// workspace, every plan in it, and every run and replay of these. Nothing else writes them meanwhile.
    #[cfg(feature = "cuda")]
    pub unsafe fn from_raw(engine: &Engine, ptr: u64, bytes: usize) -> Result<Self, Error> {
        match &engine.backend {
            Backend::Cpu => Err(Error::Backend { what: "workspace", got: "a CUDA device", want: "the CPU" }),
            Backend::Cuda(device) => {
                // SAFETY: the caller guarantees it.
                let workspace = unsafe { cuda::Workspace::from_raw(device, ptr, bytes) }?;
                Ok(Workspace { backend: WorkspaceBackend::Cuda { device: device.clone(), workspace: Some(workspace) } })
            }
        }
    }

    /// The size in bytes of its device memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match &self.backend {
            WorkspaceBackend::Cpu => 0,
            #[cfg(feature = "cuda")]
            WorkspaceBackend::Cuda { workspace, .. } => workspace.as_ref().map_or(0, cuda::Workspace::capacity),
        }
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
        match &mut self.backend {
            WorkspaceBackend::Cpu => {}
            #[cfg(feature = "cuda")]
            WorkspaceBackend::Cuda { device, workspace } => {
                if let Some(fixed) = workspace.as_ref().filter(|workspace| workspace.is_fixed()) {
                    return Err(cuda::CudaError::WorkspaceSize { need: bytes, have: fixed.capacity() }.into());
                }
                *workspace = Some(cuda::Workspace::with_capacity(device, bytes)?);
            }
        }
        Ok(())
    }

    /// The workspace on the CUDA device.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&mut self) -> Result<&mut cuda::Workspace, Error> {
        match &mut self.backend {
            WorkspaceBackend::Cpu => Err(Error::Backend { what: "workspace", got: "the CPU", want: "a CUDA device" }),
            WorkspaceBackend::Cuda { device, workspace } => {
                let made = match workspace.take() {
                    Some(made) => made,
                    None => cuda::Workspace::new(device)?,
                };
                Ok(workspace.insert(made))
            }
        }
    }

    pub(crate) fn check_cpu(&self) -> Result<(), Error> {
        match &self.backend {
            WorkspaceBackend::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            WorkspaceBackend::Cuda { .. } => {
                Err(Error::Backend { what: "workspace", got: "a CUDA device", want: "the CPU" })
            }
        }
    }
}
