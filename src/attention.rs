//! A variant bound to heads, element types and an engine.

use attn_core::{batch::Layout, cpu, lang::Dims, plan::WorkList};
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{
    Batch, Dtypes, Engine, Error, Heads, KernelKind, KvStored, Plan, Stream, Variant, Workspace, engine::Backend,
    plan::CpuPlan,
};

/// What may be said of an attention beyond heads and types.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionOptions {
    /// What `q . k` is multiplied by; `1 / sqrt(head_dim)` unless given.
    pub sm_scale: Option<f32>,
    /// The kernel family; chosen by the batch unless given. The CPU has one for all.
    pub kernel: Option<KernelKind>,
    /// What keys and values are, for a variant with `key_transform` or `value_transform`: raw, unless it is said that they are transformed
    /// already, as in a cache whose keys were rotated when they were appended. Nothing rewrites them then, before or in a kernel.
    pub stored: KvStored,
}

/// A variant bound to heads, element types and an engine. Plans are made from it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Attention {
    inner: Inner,
}

#[derive(Clone, Debug)]
enum Inner {
    Cpu(Bound),
    #[cfg(feature = "cuda")]
    Cuda(cuda::Attention),
}

/// A bound variant on the CPU.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) variant: Variant,
    pub(crate) heads: Heads,
    pub(crate) dtypes: Dtypes,
    pub(crate) sm_scale: f32,
}

impl Attention {
    pub(crate) fn new(
        engine: &Engine,
        variant: &Variant,
        heads: Heads,
        dtypes: Dtypes,
        options: AttentionOptions,
    ) -> Result<Self, Error> {
        let inner = match &engine.backend {
            Backend::Cpu => {
                heads.check()?;
                dtypes.check()?;
                cpu::check_variant(variant)?;
                let variant = variant.bind(&dims(heads, None))?.over(options.stored);
                let sm_scale = heads.sm_scale(options.sm_scale)?;
                Inner::Cpu(Bound { variant, heads, dtypes, sm_scale })
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                let AttentionOptions { sm_scale, kernel, stored } = options;
                let options = cuda::Options { sm_scale, kernel, stored };
                Inner::Cuda(cuda::Attention::new(device, variant, heads, dtypes, options)?)
            }
        };
        Ok(Attention { inner })
    }

    /// The bound variant.
    #[must_use]
    pub fn variant(&self) -> &Variant {
        match &self.inner {
            Inner::Cpu(bound) => &bound.variant,
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => attention.variant(),
        }
    }

    /// Its heads.
    #[must_use]
    pub fn heads(&self) -> Heads {
        match &self.inner {
            Inner::Cpu(bound) => bound.heads,
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => attention.heads(),
        }
    }

    /// Bytes of workspace that a plan of this batch takes, exactly; 0 on the CPU.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`].
    pub fn workspace_size(&self, batch: &Batch<'_>) -> Result<usize, Error> {
        match &self.inner {
            Inner::Cpu(_) => Ok(batch.validate().map(|_| 0)?),
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => Ok(attention.workspace_size(batch)?),
        }
    }

    /// Plans a batch: checks it, cuts it into work, and puts that into the workspace. The plan runs any number of times: every
    /// layer, every step with the same lengths. On CUDA this compiles the kernel if that has not been done.
    ///
    /// # Errors
    ///
    /// A batch that is not sound, a parameter that does not fit its lengths; on CUDA, also no kernel and no compiler, or no
    /// memory.
    pub fn plan(&self, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, Error> {
        match &self.inner {
            Inner::Cpu(bound) => Ok(Plan::cpu(plan_cpu(bound, batch, workspace)?)),
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => Ok(Plan::cuda(attention.plan(batch, workspace.cuda()?)?)),
        }
    }

    /// As [`Attention::plan`], without waiting for the device: the plan arrives in the order of the stream, the only one
    /// that may run it.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`].
    pub fn plan_on(&self, stream: &Stream, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, Error> {
        match &self.inner {
            Inner::Cpu(bound) => {
                stream.check_cpu()?;
                Ok(Plan::cpu(plan_cpu(bound, batch, workspace)?))
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => {
                let stream =
                    stream.as_cuda().ok_or(Error::Backend { what: "stream", got: "the CPU", want: "a CUDA device" })?;
                Ok(Plan::cuda(attention.plan_on(stream, batch, workspace.cuda()?)?))
            }
        }
    }

    /// The attention on the CUDA device; `None` on the CPU.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn as_cuda(&self) -> Option<&cuda::Attention> {
        match &self.inner {
            Inner::Cpu(_) => None,
            Inner::Cuda(attention) => Some(attention),
        }
    }
}

fn plan_cpu(bound: &Bound, batch: &Batch<'_>, workspace: &Workspace) -> Result<CpuPlan, Error> {
    workspace.check_cpu()?;
    let layout = batch.validate()?;
    let heads = bound.heads;
    let variant = bound.variant.bind(&dims(heads, Some(&layout)))?;
    let work = WorkList::build_for(&variant, &layout, heads, &cpu::plan_rule(heads))?;
    Ok(CpuPlan { bound: Bound { variant, ..bound.clone() }, layout, work })
}

/// The sizes that shapes of parameters are written in.
fn dims(heads: Heads, layout: Option<&Layout>) -> Dims {
    let count = |n: fn(&Layout) -> usize| layout.and_then(|layout| i64::try_from(n(layout)).ok());
    Dims {
        qo_heads: Some(heads.qo.into()),
        kv_heads: Some(heads.kv.into()),
        head_dim: Some(heads.head_dim.into()),
        batch: count(Layout::batch),
        qo_tokens: count(Layout::qo_tokens),
        kv_tokens: count(Layout::kv_tokens),
    }
}
