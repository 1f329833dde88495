//! What runs where: the answer that planning gives, without a device.

use std::fmt;

use attn_core::{
    cpu::{self, CpuError},
    dtype::{Dtypes, DtypesError},
    expr::Variant,
    lang::BindError,
    plan::PlanError,
    spec::{AttentionOptions, Heads, HeadsError},
};

use crate::{kernel_traits::KernelTraitsError, problem::Problem, splice::SpliceError};

/// An attention, and the batches that it is for.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// The variant. What its parameters need of the lengths of a batch is not known here.
    pub variant: &'a Variant,
    /// The heads.
    pub heads: Heads,
    /// The element types.
    pub dtypes: Dtypes,
    /// Options, the kernel among them.
    pub options: AttentionOptions,
    /// Where it runs.
    pub target: Target,
    /// Whether keys are in pages.
    pub paged: bool,
    /// Whether batches have levels of keys that requests share (`Batch::cascade`), which are not to be flattened.
    pub cascade: bool,
    /// Whether plans are updated on the device (`Plan::update_on_device`).
    pub device_updates: bool,
}

/// Where an attention runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The CPU.
    Cpu,
    /// A GPU of this compute capability: (9, 0) for an H100 or H200.
    Cuda {
        /// The compute capability.
        capability: (u32, u32),
    },
}

/// Why an attention does not run: what was asked, what is possible, and the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// Head counts, head dimensions or a scale of logits that no attention has.
    #[error(transparent)]
    Heads(#[from] HeadsError),
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
    NotOnDevice {
        /// What the planner kernel does not support.
        what: &'static str,
    },
    /// A device that is too old for the kernels.
    #[error("{}", too_old(.name, *.capability))]
    TooOld {
        /// The device.
        name: String,
        /// Its compute capability.
        capability: (u32, u32),
    },
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

impl<'a> Spec<'a> {
    /// Batches over pages, with default options.
    #[must_use]
    pub fn new(variant: &'a Variant, heads: Heads, dtypes: Dtypes, target: Target) -> Self {
        let options = AttentionOptions::default();
        Spec { variant, heads, dtypes, options, target, paged: true, cascade: false, device_updates: false }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Cpu => f.write_str("the CPU"),
            Target::Cuda { capability: (major, minor) } => write!(f, "a GPU of compute capability {major}.{minor}"),
        }
    }
}

/// Whether an attention runs: the checks that making it and planning its batches do, without a device, a driver or a
/// compiler. What it accepts, plans accept for every sound batch whose lengths fit the variant's parameters; what it
/// refuses, they refuse with the same words. On CUDA it builds the text of kernels, which takes milliseconds.
///
/// ```
/// use attn_core::{dtype::Dtypes, expr::Variant, spec::Heads};
/// use attn_kernels::support::{Spec, Target, supports};
/// # use attn_variants as _;
///
/// let variant = Variant::parse("causal + soft_cap(cap=30)")?;
/// let h200 = Target::Cuda { capability: (9, 0) };
/// let spec = Spec::new(&variant, Heads { qo: 32, kv: 8, head_dim: 128 }, Dtypes::bf16(), h200);
/// assert!(supports(&spec).is_ok());
/// let odd = Spec { heads: Heads { head_dim: 100, ..spec.heads }, ..spec };
/// assert!(supports(&odd).unwrap_err().to_string().contains("head_dim = 100"));
/// assert!(supports(&Spec { target: Target::Cpu, ..odd }).is_ok());
/// # Ok::<(), attn_core::ExprError>(())
/// ```
///
/// # Errors
///
/// Why it does not.
pub fn supports(spec: &Spec<'_>) -> Result<(), Unsupported> {
    let &Spec { variant, heads, dtypes, options, target, paged, cascade, device_updates } = spec;
    match target {
        // it runs cascades and updates of every variant
        Target::Cpu => drop(bind_on_cpu(variant, heads, dtypes, options)?),
        Target::Cuda { capability } => {
            check_capability(&target.to_string(), capability)?;
            let problem = Problem::new(capability, 1, variant, heads, dtypes, options)?;
            problem.check_kernels(paged)?;
            if cascade {
                problem.check_cascade(paged)?;
            }
            if device_updates {
                problem.check_device_updates()?;
            }
        }
    }
    Ok(())
}

/// A variant bound for the CPU, and the scale of logits.
///
/// # Errors
///
/// Parameters, heads or types that the CPU does not run.
pub fn bind_on_cpu(
    variant: &Variant,
    heads: Heads,
    dtypes: Dtypes,
    options: AttentionOptions,
) -> Result<(Variant, f32), Unsupported> {
    heads.check()?;
    options.head_dim_vo.check(heads)?;
    dtypes.check()?;
    cpu::check_variant(variant)?;
    let variant = variant.bind(&options.head_dim_vo.dims(heads, heads.dims()))?.with_stored(options.stored);
    Ok((variant, heads.sm_scale(options.sm_scale)?))
}
