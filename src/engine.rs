//! The engine: the device that attention runs on.

use std::fmt;

use crate::backend::{Backend, Device, map_backend, on_backend};
use crate::{CostTable, Error};

/// A device that attention runs on: a CUDA device, or the CPU. Cheap to clone.
///
/// The same program runs on either. An engine makes the memory, streams and workspaces that its attentions take. All of
/// them are `Send` and `Sync`: several threads may plan and run at once, each with a workspace of its own.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) backend: Backend<(), Device>,
}

impl Engine {
    /// CUDA device 0 if there is one, else the CPU.
    ///
    /// # Errors
    ///
    /// A CUDA device that fails. A missing driver, no device, and a device below compute capability 8.0 are no errors:
    /// the engine is then the CPU, and `tracing` has the reason.
    pub fn auto() -> Result<Self, Error> {
        #[cfg(feature = "cuda")]
        {
            use attn_kernels::cuda::CudaError;
            match Self::cuda(0) {
                Err(Error::Cuda(reason)) => match *reason {
                    CudaError::NoDriver { .. } | CudaError::NoDevice { .. } | CudaError::TooOld { .. } => {
                        tracing::info!(%reason, "running on the CPU");
                    }
                    reason => return Err(reason.into()),
                },
                engine => return engine,
            }
        }
        Ok(Self::cpu())
    }

    /// The CPU, with all threads of rayon's pool.
    #[must_use]
    pub fn cpu() -> Self {
        Engine { backend: Backend::Cpu(()) }
    }

    /// A CUDA device, through its primary context. A file of costs that `ATTN_COSTS` names is read for its first
    /// attention, which fails if the file has none.
    ///
    /// # Errors
    ///
    /// No driver, no such device, one older than compute capability 8.0, or a build without the CUDA backend.
    pub fn cuda(ordinal: u32) -> Result<Self, Error> {
        #[cfg(feature = "cuda")]
        {
            crate::register_embedded();
            Ok(Engine { backend: Backend::Cuda(Device::new(ordinal)?) })
        }
        #[cfg(not(feature = "cuda"))]
        {
            let _ = ordinal;
            Err(Error::NoCuda)
        }
    }

    /// The same engine, with costs of its GPU's kernels that `attn calibrate --out costs.jsonl` measured. What is made
    /// of it chooses kernels and cuts batches by them, in place of the file that `ATTN_COSTS` names, which is then
    /// not read. The CPU has no use for them.
    ///
    /// ```no_run
    /// use attn::{Engine, Error, CostTable};
    ///
    /// let engine = Engine::cuda(0)?.with_costs(&CostTable::load("costs.jsonl")?);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_costs(self, costs: &CostTable) -> Self {
        let backend = map_backend!(&self.backend, { Cpu(()) => (), Cuda(device) => device.with_costs(costs.clone()) });
        Engine { backend }
    }

    /// Lets go of what captured launches use of plans, attentions, transforms and ops, where another library captured
    /// the stream ([`Stream::from_raw`](crate::Stream)): its graphs must not be replayed any more. All of it is kept
    /// until then, also after its owners are dropped; [`Plan::release_captured`](crate::Plan::release_captured) is for
    /// one plan. On the CPU nothing is captured.
    pub fn release_captured(&self) {
        on_backend!(&self.backend, { Cpu(()) => (), Cuda(device) => device.release_captured() });
    }

    /// Whether the engine is the CPU.
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        matches!(self.backend, Backend::Cpu(()))
    }

    /// The CUDA device; `None` on the CPU.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        self.backend.as_cuda()
    }
}

/// `CPU (2 threads)`, or the name of the CUDA device.
impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        on_backend!(&self.backend, {
            Cpu(()) => write!(f, "CPU ({} threads)", threads()),
            Cuda(device) => write!(f, "{} (CUDA device {})", device.name(), device.ordinal()),
        })
    }
}
