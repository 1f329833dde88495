//! Planning: an attention and a batch become a plan.

use super::{Plan, PlanOptions, cpu::CpuPlan};
use crate::backend::{map_backend, on_backend};
#[cfg(doc)]
use crate::expr::LayerError;
use crate::{Attention, Batch, Error, Stream, Workspace};

impl Attention {
    /// Plans a batch: checks it, splits it into work tiles, and writes the work list to the workspace. The plan can run
    /// any number of times: in every layer, and in every step with the same lengths. On CUDA this compiles the kernel,
    /// unless it is in the cache.
    ///
    /// # Errors
    ///
    /// An invalid batch, or a parameter that does not fit its lengths. On CUDA also neither a kernel nor a compiler, or
    /// out of memory.
    pub fn plan(&self, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, Error> {
        self.plan_with(batch, workspace, PlanOptions::default())
    }

    /// Plans with options: with workspace for other batches, for other layers too, or in the order of a stream.
    ///
    /// # Errors
    ///
    /// A batch past the capacity; a [`LayerError`] for a layer that cannot share; the errors of [`Attention::plan`].
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
    /// let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
    /// let mut plan = attention.plan_with(&first, &mut workspace, options)?;
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
    pub fn plan_with(
        &self,
        batch: &Batch<'_>,
        workspace: &mut Workspace,
        options: PlanOptions<'_>,
    ) -> Result<Plan, Error> {
        let PlanOptions { capacity, layers, stream } = options;
        let backend = map_backend!(&self.backend, {
            Cpu(attention) => {
                workspace.cpu()?;
                stream.map_or(Ok(()), Stream::cpu)?;
                CpuPlan::new(attention, batch, &all(layers, Attention::cpu)?, capacity)?
            },
            Cuda(attention) => {
                let (layers, stream) = (all(layers, Attention::cuda)?, stream.map(Stream::cuda).transpose()?);
                attention.plan(batch, &layers, capacity.as_ref(), stream, workspace.cuda()?)?
            },
        });
        Ok(Plan { backend })
    }

    /// Bytes of workspace that [`Attention::plan_with`] takes, exactly; 0 on the CPU. With a capacity they are the same
    /// for every batch within it. On CUDA this compiles and loads the kernels, as planning does. It ignores
    /// [`PlanOptions::stream`].
    ///
    /// # Errors
    ///
    /// The errors of [`Attention::plan_with`].
    pub fn workspace_size(&self, batch: &Batch<'_>, options: PlanOptions<'_>) -> Result<usize, Error> {
        let PlanOptions { capacity, layers, .. } = options;
        on_backend!(&self.backend, {
            Cpu(attention) => CpuPlan::new(attention, batch, &all(layers, Attention::cpu)?, capacity).map(|_| 0),
            Cuda(attention) => Ok(attention.workspace_size(batch, &all(layers, Attention::cuda)?, capacity.as_ref())?),
        })
    }
}

/// The objects of all layers on their backend.
fn all<'a, T>(
    layers: &[&'a Attention],
    of: impl Fn(&'a Attention) -> Result<&'a T, Error>,
) -> Result<Vec<&'a T>, Error> {
    layers.iter().map(|layer| of(layer)).collect()
}
