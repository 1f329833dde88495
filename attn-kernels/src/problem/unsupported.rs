//! Attentions that do not run.

use attn_core::{
    cpu::CpuError,
    dtype::DtypesError,
    lang::BindError,
    plan::PlanError,
    spec::{ComputeTypeError, HeadsError, SkipSoftmaxError},
};

use crate::{kernel_traits::KernelTraitsError, splice::SpliceError};

/// Why an attention does not run: what was asked, what is possible, and the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum Unsupported {
    /// Head counts, head dimensions or a scale of logits that no attention has.
    #[error(transparent)]
    Heads(#[from] HeadsError),
    /// A compute type that no kernel has.
    #[error(transparent)]
    ComputeType(#[from] ComputeTypeError),
    /// Tiles that cannot be left out.
    #[error(transparent)]
    SkipSoftmax(#[from] SkipSoftmaxError),
    /// Element types that no attention has.
    #[error(transparent)]
    Dtypes(#[from] DtypesError),
    /// A parameter that does not fit.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A variant that the CPU does not run.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// A variant or an option that a kind of batch does not allow.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Heads or element types without a kernel.
    #[error(transparent)]
    KernelTraits(#[from] KernelTraitsError),
    /// A variant that a kernel does not run.
    #[error(transparent)]
    Splice(#[from] SpliceError),
    /// Plans that only the host can update.
    #[error("{}", not_on_device(.what))]
    NotOnDevice { what: &'static str },
    /// A device that is too old for the kernels.
    #[error("{}", too_old(.name, *.capability))]
    TooOld { name: String, capability: (u32, u32) },
}

pub(crate) fn not_on_device(what: &str) -> String {
    format!("a plan of {what} is not made on the device; use `Plan::update`, which reads the lengths on the host")
}

pub(crate) fn too_old(name: &str, (major, minor): (u32, u32)) -> String {
    format!("{name} has compute capability {major}.{minor}; kernels need 8.0 or later. Use `Engine::cpu()`")
}

/// Refuses a device that kernels are not for.
pub(crate) fn check_capability(name: &str, capability: (u32, u32)) -> Result<(), Unsupported> {
    if capability.0 < 8 { Err(Unsupported::TooOld { name: name.to_owned(), capability }) } else { Ok(()) }
}
