//! A planned batch.

use attn_core::{
    batch::{BatchCapacity, BatchError, Layout},
    cpu,
    plan::WorkList,
    tensor::check_run,
};
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{Batch, Error, Kv, Out, Stream, TensorRef, Variant, attention::Bound};

/// A planned batch: ready to run any number of times. A plan that was made with a capacity can be given other batches ([`Plan::update`]).
#[derive(Debug)]
pub struct Plan {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Cpu(CpuPlan),
    #[cfg(feature = "cuda")]
    Cuda(cuda::Plan),
}

#[derive(Debug)]
pub(crate) struct CpuPlan {
    /// Of any batch.
    pub(crate) attention: Bound,
    /// With tensors over this batch's lengths.
    pub(crate) variant: Variant,
    pub(crate) layout: Layout,
    pub(crate) work: WorkList,
    /// `None`: the plan is of one batch.
    pub(crate) capacity: Option<BatchCapacity>,
}

impl Plan {
    pub(crate) fn cpu(plan: CpuPlan) -> Self {
        Plan { inner: Inner::Cpu(plan) }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(plan: cuda::Plan) -> Self {
        Plan { inner: Inner::Cuda(plan) }
    }

    /// Runs the attention: `q` is (qo tokens, qo heads, head_dim), `kv` as the batch says ([`Kv::ragged`], [`Kv::paged`]), with scales
    /// where stored elements stand for others ([`Kv::with_scales`]), and `out` gets o (of q's shape) and, if wanted, lse (qo tokens, qo heads).
    ///
    /// On CUDA it only launches: no allocation, no synchronisation, no decision of the host, so that it can be captured in a
    /// graph; results are there when the stream gets there. On the CPU it returns when it is done. Under a capture, the tensors of a plan with a
    /// capacity have to fit the largest batch within it, which the plan may have been given when the capture is replayed.
    ///
    /// # Errors
    ///
    /// A tensor that does not fit the batch, heads or types, or is in the wrong memory; a plan whose workspace was planned into
    /// again. Nothing is written then.
    pub fn run(&self, stream: &Stream, q: TensorRef<'_>, kv: Kv<'_>, out: Out<'_>) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(CpuPlan { attention, variant, layout, work, .. }) => {
                stream.check_cpu()?;
                let &Bound { heads, dtypes, sm_scale, .. } = attention;
                check_run(layout, heads, dtypes, &q, &kv, &out)?;
                Ok(cpu::run(&cpu::Problem { variant, heads, sm_scale, layout, work, q, kv }, out)?)
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => Ok(plan.run(stream.cuda()?, q, kv, out)?),
        }
    }

    /// Gives a plan that was made with a capacity ([`Attention::plan_with_capacity`](crate::Attention::plan_with_capacity)) another batch, in the order of
    /// the stream: runs that are given to it afterwards are of that batch, and so are replays of what was captured of this plan before. A request
    /// without queries writes nothing: a batch of fewer requests may be padded with such, or simply be shorter.
    ///
    /// What is in the workspace is overwritten in place: replay on the same stream, or order streams with events, so that no replay runs at the
    /// same time.
    ///
    /// # Errors
    ///
    /// A batch that is not sound, or past the capacity; a parameter that does not fit its lengths; a plan without capacity. On CUDA also a stale plan, a
    /// stream that is being captured, and tensors of the variant that are others for this batch. Nothing is changed then: the plan still is of
    /// the batch before.
    pub fn update(&mut self, stream: &Stream, batch: &Batch<'_>) -> Result<(), Error> {
        match &mut self.inner {
            Inner::Cpu(plan) => {
                stream.check_cpu()?;
                let capacity = plan.capacity.ok_or(BatchError::NoCapacity)?;
                let layout = batch.validate()?;
                capacity.check(&layout)?;
                let (variant, work) = plan.attention.cut(&layout)?;
                (plan.variant, plan.layout, plan.work) = (variant, layout, work);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => Ok(plan.update(stream.cuda()?, batch)?),
        }
    }

    /// The largest batch that the plan may be given; `None` for a plan of one batch.
    #[must_use]
    pub fn capacity(&self) -> Option<&BatchCapacity> {
        match &self.inner {
            Inner::Cpu(plan) => plan.capacity.as_ref(),
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => plan.capacity(),
        }
    }

    /// Puts what runs of this plan stored into the handles of the variant's `OutTensor`s
    /// ([`OutTensor::to_vec`](crate::lang::OutTensor::to_vec)). On the CPU it is there already; on CUDA this waits for the device.
    ///
    /// # Errors
    ///
    /// A stream of another backend, or what a kernel ran into.
    pub fn fetch_outputs(&self, stream: &Stream) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(_) => stream.check_cpu(),
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => {
                stream.cuda()?;
                Ok(plan.read_outputs()?)
            }
        }
    }

    /// The batch.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        match &self.inner {
            Inner::Cpu(plan) => &plan.layout,
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => plan.layout(),
        }
    }

    /// The plan on the CUDA device: its kernel and sizes. `None` on the CPU.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn as_cuda(&self) -> Option<&cuda::Plan> {
        match &self.inner {
            Inner::Cpu(_) => None,
            Inner::Cuda(plan) => Some(plan),
        }
    }
}
