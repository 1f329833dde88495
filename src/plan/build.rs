//! Planning: an attention and a batch become a plan.

#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use super::{
    Plan,
    cpu::{CpuPlan, levels_within},
};
#[cfg(doc)]
use crate::planner::LayerError;
use crate::{
    Attention, Batch, BatchCapacity, Error, Stream, Workspace,
    attention::{AttentionBackend, CpuAttention},
};

impl Attention {
    /// Bytes of workspace that a plan of this batch takes, exactly; 0 on the CPU.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`].
    pub fn workspace_size(&self, batch: &Batch<'_>) -> Result<usize, Error> {
        match &self.backend {
            AttentionBackend::Cpu(_) => Ok(batch.validate().map(|_| 0)?),
            #[cfg(feature = "cuda")]
            AttentionBackend::Cuda(attention) => Ok(attention.workspace_size(batch)?),
        }
    }

    /// Bytes of workspace that a plan with this capacity takes, exactly, for any batch; 0 on the CPU.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan_with_capacity`].
    pub fn workspace_size_with_capacity(&self, capacity: &BatchCapacity) -> Result<usize, Error> {
        match &self.backend {
            AttentionBackend::Cpu(_) => Ok(capacity.largest().map(|_| 0)?),
            #[cfg(feature = "cuda")]
            AttentionBackend::Cuda(attention) => Ok(attention.workspace_size_with_capacity(capacity)?),
        }
    }

    /// Bytes of workspace that [`Attention::plan_for`] takes, exactly; 0 on the CPU.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan_for`].
    pub fn workspace_size_for(&self, batch: &Batch<'_>, layers: &[&Attention]) -> Result<usize, Error> {
        match &self.backend {
            AttentionBackend::Cpu(attention) => {
                attention.layers(&cpu_layers(layers)?)?;
                Ok(batch.validate().map(|_| 0)?)
            }
            #[cfg(feature = "cuda")]
            AttentionBackend::Cuda(attention) => Ok(attention.workspace_size_for(batch, &cuda_layers(layers)?)?),
        }
    }

    /// As [`Attention::plan`], for several layers: the plan also runs each of `layers` ([`Plan::run_layer`]), which
    /// were derived by [`Attention::with_parameters`] or [`Attention::with_sm_scale`]. If the layers see different keys
    /// (another window), the work list covers all keys that any layer sees, and each layer skips the keys that its own
    /// mask hides. A layer that sees far fewer keys is faster with a plan of its own. Layers that see the same keys
    /// (other caps, slopes, sinks, scales) need not be named.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`], and a [`LayerError`] for a layer that cannot share the plan.
    pub fn plan_for(&self, batch: &Batch<'_>, layers: &[&Attention], workspace: &mut Workspace) -> Result<Plan, Error> {
        match &self.backend {
            AttentionBackend::Cpu(attention) => {
                Ok(Plan::cpu(CpuPlan::new(attention, batch.validate()?, &cpu_layers(layers)?, workspace)?))
            }
            #[cfg(feature = "cuda")]
            AttentionBackend::Cuda(attention) => {
                Ok(Plan::cuda(attention.plan_for(batch, &cuda_layers(layers)?, workspace.cuda()?)?))
            }
        }
    }

    /// Plans a batch: checks it, splits it into work tiles, and writes the work list to the workspace. The plan can run
    /// any number of times: in every layer, and in every step with the same lengths. On CUDA this compiles the kernel,
    /// unless it is in the cache.
    ///
    /// # Errors
    ///
    /// An invalid batch, or a parameter that does not fit its lengths. On CUDA also neither a kernel nor a compiler, or
    /// out of memory.
    pub fn plan(&self, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, Error> {
        match &self.backend {
            AttentionBackend::Cpu(attention) => {
                Ok(Plan::cpu(CpuPlan::new(attention, batch.validate()?, &[], workspace)?))
            }
            #[cfg(feature = "cuda")]
            AttentionBackend::Cuda(attention) => Ok(Plan::cuda(attention.plan(batch, workspace.cuda()?)?)),
        }
    }

    /// As [`Attention::plan`], without waiting for the device: the plan is copied in the order of the stream, which is
    /// the only stream that may run it.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`].
    pub fn plan_on(&self, stream: &Stream, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, Error> {
        match &self.backend {
            AttentionBackend::Cpu(attention) => {
                stream.check_cpu()?;
                Ok(Plan::cpu(CpuPlan::new(attention, batch.validate()?, &[], workspace)?))
            }
            #[cfg(feature = "cuda")]
            AttentionBackend::Cuda(attention) => {
                Ok(Plan::cuda(attention.plan_on(stream.cuda()?, batch, workspace.cuda()?)?))
            }
        }
    }

    /// As [`Attention::plan`], with workspace for every batch up to a capacity, so that the plan can be updated in
    /// place ([`Plan::update`]). A captured run can then be replayed with other batches, because its grids and
    /// addresses depend on the capacity alone. Every batch gives the same bits as a plan of its own, if the capacity
    /// selects the same kernel. (On CUDA the capacity's queries per request select decode or prefill.)
    ///
    /// A cascade is flattened, unless the capacity has levels ([`BatchCapacity::in_levels`]). With levels it runs level
    /// by level where the cost model predicts a gain, and on CUDA all batches use a mixed launch.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`], and a batch past the capacity.
    ///
    /// # Example
    ///
    /// A decode loop. Only lengths and pages change from step to step.
    ///
    /// ```
    /// use attn::{batch::PageTableBuf, Error, Out, prelude::*};
    ///
    /// let (page_size, num_pages) = (4, 8);
    /// let engine = Engine::cpu();
    /// let attention = engine.attention(&Variant::parse("full")?, Heads { qo: 4, kv: 2, head_dim: 8 }, Dtypes::f32())?;
    /// let (stream, mut workspace) = (engine.stream()?, engine.workspace());
    /// let q = vec![1f32; 3 * 4 * 8];
    /// let pool = vec![1f32; 8 * 4 * 2 * 8];
    /// let mut o = vec![0f32; q.len()];
    ///
    /// // at most 3 requests, which fill the pool
    /// let capacity = BatchCapacity::decode(3, page_size * num_pages).in_pages(page_size, num_pages);
    /// let mut lens = [5, 2, 9];
    /// let table = |lens: &[u32]| {
    ///     let mut pages = 0..;
    ///     PageTableBuf::from_lens(lens, page_size, num_pages, || pages.next().unwrap_or(0))
    /// };
    /// let first = table(&lens);
    /// let first = Batch::paged(&[0, 1, 2, 3], &first.table());
    /// let mut plan = attention.plan_with_capacity(&first, &capacity, &mut workspace)?;
    /// // on a CUDA device: capture a run here, and replay it in place of `run` below
    /// for _step in 0..3 {
    ///     lens.iter_mut().for_each(|len| *len += 1);
    ///     plan.update(&stream, &Batch::paged(&[0, 1, 2, 3], &table(&lens).table()))?;
    ///     let kv = Kv::paged(TensorRef::host(&pool, &[8, 4, 2, 8])?, TensorRef::host(&pool, &[8, 4, 2, 8])?);
    ///     let out = Out::new(TensorMut::host(&mut o, &[3, 4, 8])?);
    ///     plan.run(&stream, TensorRef::host(&q, &[3, 4, 8])?, kv, out)?;
    /// }
    /// assert!(o.iter().all(|&x| (x - 1.0).abs() < 1e-6));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn plan_with_capacity(
        &self,
        batch: &Batch<'_>,
        capacity: &BatchCapacity,
        workspace: &mut Workspace,
    ) -> Result<Plan, Error> {
        self.plan_for_with_capacity(batch, &[], capacity, workspace)
    }

    /// [`Attention::plan_with_capacity`] for several layers, as in [`Attention::plan_for`].
    ///
    /// # Errors
    ///
    /// As both.
    pub fn plan_for_with_capacity(
        &self,
        batch: &Batch<'_>,
        layers: &[&Attention],
        capacity: &BatchCapacity,
        workspace: &mut Workspace,
    ) -> Result<Plan, Error> {
        match &self.backend {
            AttentionBackend::Cpu(attention) => {
                capacity.largest()?;
                let layout = levels_within(batch.validate()?, capacity)?;
                let plan = CpuPlan::new(attention, layout, &cpu_layers(layers)?, workspace)?;
                Ok(Plan::cpu(CpuPlan { capacity: Some(*capacity), ..plan }))
            }
            #[cfg(feature = "cuda")]
            AttentionBackend::Cuda(attention) => {
                let layers = cuda_layers(layers)?;
                Ok(Plan::cuda(attention.plan_for_with_capacity(batch, &layers, capacity, workspace.cuda()?)?))
            }
        }
    }
}

fn cpu_layers<'a>(layers: &[&'a Attention]) -> Result<Vec<&'a CpuAttention>, Error> {
    layers.iter().map(|layer| layer.cpu()).collect()
}

#[cfg(feature = "cuda")]
fn cuda_layers<'a>(layers: &[&'a Attention]) -> Result<Vec<&'a cuda::Attention>, Error> {
    layers.iter().map(|layer| layer.cuda()).collect()
}
