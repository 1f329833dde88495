//! Workspaces: where plans live.

#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{Engine, Error, engine::Backend};

/// Memory that plans are put into, made by [`Engine::workspace`]. It grows when a plan needs more, unless it is of a fixed size
/// ([`Workspace::fixed`], [`Workspace::from_raw`]), and never during a run. What is in the memory before does not matter.
///
/// It holds one plan at a time: planning into it again makes the plan before stale, and running a stale plan is an error. On the
/// CPU a plan keeps its own lists, and nothing is stale. `Send` and `Sync`; planning takes it by `&mut`.
#[derive(Debug)]
pub struct Workspace {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda {
        device: cuda::Device,
        workspace: Option<cuda::Workspace>,
    },
}

impl Workspace {
    pub(crate) fn new(engine: &Engine) -> Self {
        let inner = match &engine.backend {
            Backend::Cpu => Inner::Cpu,
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => Inner::Cuda { device: device.clone(), workspace: None },
        };
        Workspace { inner }
    }

    /// A workspace of so many bytes that never grows: a plan that needs more is an error, and nothing changes. How many a plan takes is what
    /// [`Attention::workspace_size`](crate::Attention::workspace_size) and its like say, exactly. On the CPU plans take none.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn fixed(engine: &Engine, bytes: usize) -> Result<Self, Error> {
        let inner = match &engine.backend {
            Backend::Cpu => Inner::Cpu,
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                Inner::Cuda { device: device.clone(), workspace: Some(cuda::Workspace::fixed(device, bytes)?) }
            }
        };
        let _ = bytes;
        Ok(Workspace { inner })
    }

    /// A workspace of a fixed size in device memory of somebody else: an engine that owns all memory hands out a part of it.
    ///
    /// # Errors
    ///
    /// An address that is no multiple of 256, or an engine that is the CPU.
    ///
    /// # Safety
    ///
    /// As [`cuda::Workspace::from_raw`]: there are `bytes` bytes at `ptr` in memory of the engine's device, which live as long as this, every plan in it, and
    /// every run and replay of these; nobody else writes them meanwhile.
    #[cfg(feature = "cuda")]
    pub unsafe fn from_raw(engine: &Engine, ptr: u64, bytes: usize) -> Result<Self, Error> {
        match &engine.backend {
            Backend::Cpu => Err(Error::Backend { what: "workspace", got: "a CUDA device", want: "the CPU" }),
            Backend::Cuda(device) => {
                // SAFETY: the caller's promise.
                let workspace = unsafe { cuda::Workspace::from_raw(device, ptr, bytes) }?;
                Ok(Workspace { inner: Inner::Cuda { device: device.clone(), workspace: Some(workspace) } })
            }
        }
    }

    /// Bytes of device memory that it holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match &self.inner {
            Inner::Cpu => 0,
            #[cfg(feature = "cuda")]
            Inner::Cuda { workspace, .. } => workspace.as_ref().map_or(0, cuda::Workspace::capacity),
        }
    }

    /// Grows to at least so many bytes now, rather than when planning. A plan that it holds keeps the old memory and stays
    /// good.
    ///
    /// # Errors
    ///
    /// No memory, or a workspace of a fixed size.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes <= self.capacity() {
            return Ok(());
        }
        match &mut self.inner {
            Inner::Cpu => {}
            #[cfg(feature = "cuda")]
            Inner::Cuda { device, workspace } => {
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
        match &mut self.inner {
            Inner::Cpu => Err(Error::Backend { what: "workspace", got: "the CPU", want: "a CUDA device" }),
            Inner::Cuda { device, workspace } => {
                let made = match workspace.take() {
                    Some(made) => made,
                    None => cuda::Workspace::new(device)?,
                };
                Ok(workspace.insert(made))
            }
        }
    }

    pub(crate) fn check_cpu(&self) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            Inner::Cuda { .. } => Err(Error::Backend { what: "workspace", got: "a CUDA device", want: "the CPU" }),
        }
    }
}
