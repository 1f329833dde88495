//! A planned batch.

use attn_core::{batch::Layout, cpu, plan::WorkList, tensor::check_run};
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{Error, Kv, Out, Stream, TensorRef, attention::Bound};

/// A planned batch: ready to run any number of times.
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
    pub(crate) bound: Bound,
    pub(crate) layout: Layout,
    pub(crate) work: WorkList,
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
    /// graph; results are there when the stream gets there. On the CPU it returns when it is done.
    ///
    /// # Errors
    ///
    /// A tensor that does not fit the batch, heads or types, or is in the wrong memory; a plan whose workspace was planned into
    /// again. Nothing is written then.
    pub fn run(&self, stream: &Stream, q: TensorRef<'_>, kv: Kv<'_>, out: Out<'_>) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(CpuPlan { bound, layout, work }) => {
                stream.check_cpu()?;
                check_run(layout, bound.heads, bound.dtypes, &q, &kv, &out)?;
                let Bound { variant, heads, sm_scale, .. } = bound;
                let (heads, sm_scale) = (*heads, *sm_scale);
                Ok(cpu::run(&cpu::Problem { variant, heads, sm_scale, layout, work, q, kv }, out)?)
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => {
                let stream =
                    stream.as_cuda().ok_or(Error::Backend { what: "stream", got: "the CPU", want: "a CUDA device" })?;
                Ok(plan.run(stream, q, kv, out)?)
            }
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
                stream.as_cuda().ok_or(Error::Backend { what: "stream", got: "the CPU", want: "a CUDA device" })?;
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
