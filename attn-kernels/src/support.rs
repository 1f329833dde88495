//! What runs where: the answer that planning gives, without a device.

use std::fmt;

use attn_core::cpu;
use attn_core::dtype::Dtypes;
use attn_core::expr::Variant;
use attn_core::spec::{AttentionOptions, Heads};

use crate::cost::CostTable;
use crate::problem::{Problem, check_capability};

pub use crate::problem::Unsupported;

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
/// One thing more depends on lengths: on CUDA, under [`AttentionOptions::fixed_split_size`] and without a kernel of
/// the caller's choice, a plan refuses a batch whose requests would run different kernels alone.
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
            let problem = Problem::new(capability, 1, &CostTable::default(), variant, heads, dtypes, options)?;
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

/// A variant bound for the CPU, its element types with the formats that it names, and the scale of logits.
///
/// # Errors
///
/// Parameters, heads or types that the CPU does not run.
pub fn bind_on_cpu(
    variant: &Variant,
    heads: Heads,
    dtypes: Dtypes,
    options: AttentionOptions,
) -> Result<(Variant, Dtypes, f32), Unsupported> {
    heads.check()?;
    options.head_dim_vo.check(heads)?;
    dtypes.check_qo()?;
    cpu::check_variant(variant)?;
    variant.check_stored(options.stored, options.head_dim_vo)?;
    let (variant, dtypes) = variant.over(dtypes, options.head_dim_vo)?;
    let variant = variant.bind(&options.head_dim_vo.dims(heads, heads.dims()))?.with_stored(options.stored);
    // it computes in f32 whatever the option, and refuses what no GPU runs
    options.compute_type.check(heads, options.head_dim_vo, dtypes, options.kernel, &variant)?;
    options.check_skip_softmax(&variant)?;
    Ok((variant, dtypes, heads.sm_scale(options.sm_scale)?))
}
