//! Workspaces: where plans live.

#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{Engine, Error, engine::Backend};

/// Memory that plans are put into, made by [`Engine::workspace`]. It grows when a plan needs more, and never during a run.
///
/// It holds one plan at a time: planning into it again makes the plan before stale, and running a stale plan is an error. On the
/// CPU a plan keeps its own lists, and nothing is stale.
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
    /// No memory.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes <= self.capacity() {
            return Ok(());
        }
        match &mut self.inner {
            Inner::Cpu => {}
            #[cfg(feature = "cuda")]
            Inner::Cuda { device, workspace } => {
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
