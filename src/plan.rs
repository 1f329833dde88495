//! The plan of a batch on an engine: run, update, and what it was made for. `build` makes it, `cpu` is its CPU backend.

mod build;
mod cpu;
mod options;

use attn_core::batch::{BatchCapacity, DeviceBatch, Layout};

use crate::backend::{Backend, CudaPlan, on_backend, try_backend};
use crate::{Attention, Batch, Error, Kv, Out, Stream, TensorRef};
use cpu::CpuPlan;

pub use options::{PlanOptions, RunOptions};

/// A planned batch that can run any number of times. A plan with a capacity can be updated to other batches
/// ([`Plan::update`]).
///
/// `Send` and `Sync`: several threads may run it, on any streams. On CUDA its runs share partial states and work
/// counters, so one waits on the device for the one before; use a workspace per stream for runs that overlap.
#[derive(Debug)]
pub struct Plan {
    backend: Backend<CpuPlan, CudaPlan>,
}

impl Plan {
    /// Runs the attention. `q` is (qo tokens, qo heads, head_dim); `kv` has the layout of the batch ([`Kv::ragged`],
    /// [`Kv::paged`]), with scales for quantised caches ([`Kv::with_scales`]); `out` receives o (qo tokens, qo heads,
    /// value dim) and, if wanted, lse (qo tokens, qo heads). Without a capacity these are the tokens of the batch. With
    /// one, tensors may have more: what is past the batch is neither read nor written.
    ///
    /// On CUDA it only launches: no allocation, no synchronisation and no decision on the host, so a CUDA graph can
    /// capture it. Results are ready when the stream has reached them. On the CPU the call returns when the attention
    /// is done. Under a capture, and after [`Plan::update_on_device`], the tensors of a plan with a capacity must fit
    /// the largest batch of that capacity, because such a batch may then run.
    ///
    /// # Errors
    ///
    /// A tensor that does not fit the batch, heads or types, or that is in the wrong memory; an output that shares
    /// memory with another tensor. On CUDA also a tensor
    /// whose address or strides are no multiples of 16 bytes; a stream or a buffer of another device; a stale plan,
    /// whose workspace was planned into again; `CudaError::Capturing` where another library captures a stream that used
    /// the same memory before. Nothing is written then.
    pub fn run(&self, stream: &Stream, q: TensorRef<'_>, kv: Kv<'_>, out: Out<'_>) -> Result<(), Error> {
        self.run_with(stream, q, kv, out, RunOptions::default())
    }

    /// Runs with options: as another layer of a model, or partial attention.
    ///
    /// # Errors
    ///
    /// A [`LayerError`](crate::expr::LayerError) for a layer that cannot run the plan; a partial output without lse;
    /// the errors of [`Plan::run`].
    pub fn run_with(
        &self,
        stream: &Stream,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        out: Out<'_>,
        options: RunOptions<'_>,
    ) -> Result<(), Error> {
        let RunOptions { layer, partial } = options;
        on_backend!(&self.backend, {
            Cpu(plan) => {
                stream.cpu()?;
                plan.run(q, kv, out, layer.map(Attention::cpu).transpose()?, partial)
            },
            Cuda(plan) => Ok(plan.run(stream.cuda()?, q, kv, out, layer.map(Attention::cuda).transpose()?, partial)?),
        })
    }

    /// Updates a plan that has a capacity ([`PlanOptions::capacity`]) to another batch, in the order of the
    /// stream: later runs on the stream compute that batch, and so do replays of runs that were captured before. A
    /// request without queries writes nothing, so a batch with fewer requests may be padded with such requests or
    /// simply be shorter. A cascade may have other groups and fewer levels than the capacity
    /// ([`BatchCapacity::in_levels`]), or none.
    ///
    /// The workspace is overwritten in place, after earlier runs and replays of the plan on other streams.
    ///
    /// # Errors
    ///
    /// An invalid batch, or one past the capacity; a parameter that does not fit its lengths; a plan without capacity.
    /// On CUDA also a stale plan, a stream that is being captured, and a default that depends on the lengths of the
    /// batch. Nothing changes then: the plan keeps its previous batch.
    pub fn update(&mut self, stream: &Stream, batch: &Batch<'_>) -> Result<(), Error> {
        on_backend!(&mut self.backend, {
            Cpu(plan) => stream.cpu().and_then(|()| plan.update(batch)),
            Cuda(plan) => Ok(plan.update(stream.cuda()?, batch)?),
        })
    }

    /// Updates on the device: a planner kernel reads lengths and pages from device memory in the order of the stream
    /// and writes the same work list that the host would, bit for bit. The host neither waits nor learns the lengths.
    /// The update can be captured together with runs: each replay then plans again from the current content of the
    /// arrays. The number of requests is fixed by the call; a request without queries does nothing.
    ///
    /// For an invalid batch, or one past the capacity, the kernel writes an empty work list: runs write nothing, and
    /// [`Plan::device_status`] returns the error. The first call compiles and loads the kernel, which cannot happen
    /// under a capture: make it before, or call [`Plan::prepare_device_updates`].
    ///
    /// A batch with levels ([`DeviceBatch::with_levels`]) takes a capacity with as many
    /// ([`BatchCapacity::in_levels`]). The device runs its levels as they are, and shares tiles where the host would;
    /// it does not ask whether the batch would run faster flattened, as the host does where the options name no kernel.
    ///
    /// On the CPU the arrays are in host memory ([`I32Slice::host`](crate::batch::I32Slice::host)). They are read at
    /// once, and errors are returned at once.
    ///
    /// ```
    /// use attn::{batch::{DeviceBatch, I32Slice}, Error, prelude::*};
    ///
    /// let engine = Engine::cpu();
    /// let attention = engine.attention(&Variant::parse("full")?, Heads { qo: 4, kv: 2, head_dim: 8 }, Dtypes::f32())?;
    /// let (stream, mut workspace) = (engine.stream()?, engine.workspace());
    /// let first = Batch::ragged(&[0, 1, 2], &[0, 5, 7]);
    /// let options = PlanOptions { capacity: Some(BatchCapacity::decode(2, 100)), ..Default::default() };
    /// let mut plan = attention.plan_with(&first, &mut workspace, options)?;
    ///
    /// // on a CUDA device: `I32Slice::device`, which kernels of the engine write from step to step;
    /// // capture this together with `run`
    /// let (qo_indptr, kv_lens) = (I32Slice::host(&[0, 1, 2]), I32Slice::host(&[6, 3]));
    /// plan.update_on_device(&stream, &DeviceBatch::ragged(qo_indptr, kv_lens))?;
    /// plan.device_status(&stream)?;
    /// # assert_eq!(plan.layout().kv_indptr(), [0, 6, 9]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A plan without capacity; arrays in other memory, of contradicting lengths, or of too many requests. On CUDA also
    /// more levels than the capacity, or than eight; a stale plan, and plans that no planner kernel supports: unions,
    /// key lists, variants with `kv_range`, those with
    /// what a capacity does not bound (conditions, defaults, shapes), batch-invariant attention whose requests within
    /// the capacity would run other kernels if alone, tensors smaller than the capacity needs. Use [`Plan::update`] for
    /// those. Nothing changes then.
    pub fn update_on_device(&mut self, stream: &Stream, batch: &DeviceBatch<'_>) -> Result<(), Error> {
        on_backend!(&mut self.backend, {
            Cpu(plan) => stream.cpu().and_then(|()| plan.update_on_device(batch)),
            Cuda(plan) => Ok(plan.update_on_device(stream.cuda()?, batch)?),
        })
    }

    /// Prepares [`Plan::update_on_device`], which can be captured afterwards. On CUDA this compiles and loads the
    /// planner kernel, unless it is loaded.
    ///
    /// # Errors
    ///
    /// A plan without capacity, or one that only the host can update; neither a kernel nor a compiler.
    pub fn prepare_device_updates(&mut self) -> Result<(), Error> {
        try_backend!(&mut self.backend, {
            Cpu(plan) => plan.required_capacity().map(drop),
            Cuda(plan) => plan.prepare_device_updates(),
        })
    }

    /// The error of the batch that the device planned last ([`Plan::update_on_device`]), if any. Waits for everything
    /// launched on the device.
    ///
    /// # Errors
    ///
    /// The error that [`Plan::update`] would have returned for that batch; a plan without capacity. On CUDA also a
    /// stale plan, a stream that is being captured, and a fault of a kernel that ran before.
    pub fn device_status(&self, stream: &Stream) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(plan) => stream.cpu().and_then(|()| Ok(plan.required_capacity().map(drop)?)),
            Cuda(plan) => Ok(plan.device_status(stream.cuda()?)?),
        })
    }

    /// The capacity of the plan; `None` for a plan of one batch.
    #[must_use]
    pub fn capacity(&self) -> Option<&BatchCapacity> {
        on_backend!(&self.backend, {
            Cpu(plan) => plan.capacity.as_ref(),
            Cuda(plan) => plan.capacity(),
        })
    }

    /// Copies what runs of this plan stored into the variant's `OutTensor` handles
    /// ([`OutTensor::to_vec`](crate::lang::OutTensor::to_vec)). On the CPU it is there already; on CUDA this waits for
    /// the device.
    ///
    /// # Errors
    ///
    /// A stream of another backend, or a fault of a kernel that ran before.
    pub fn fetch_outputs(&self, stream: &Stream) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(_) => stream.cpu(),
            Cuda(plan) => stream.cuda().and_then(|_| Ok(plan.read_outputs()?)),
        })
    }

    /// The batch. A cascade that runs flattened has no levels here. After [`Plan::update_on_device`] on CUDA it is the
    /// last batch that the host passed.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        on_backend!(&self.backend, {
            Cpu(plan) => &plan.layout,
            Cuda(plan) => plan.layout(),
        })
    }

    /// Whether the workspace still holds the plan; running a stale one is an error. On the CPU no plan becomes stale.
    #[must_use]
    pub fn is_current(&self) -> bool {
        on_backend!(&self.backend, { Cpu(_) => true, Cuda(plan) => plan.is_current() })
    }

    /// Lets go of the memory and kernels that captured runs of this plan use, where another library captured the stream
    /// ([`Stream::from_raw`](crate::Stream)): its graphs must not be replayed any more. They are kept until then, also
    /// after the plan is dropped; [`Engine::release_captured`](crate::Engine::release_captured) releases those of plans
    /// that are gone. The plan itself goes on. On the CPU nothing is captured.
    pub fn release_captured(&self) {
        on_backend!(&self.backend, { Cpu(_) => (), Cuda(plan) => plan.release_captured() });
    }

    /// Bytes of workspace in use; 0 on the CPU.
    #[must_use]
    pub fn workspace_bytes(&self) -> usize {
        on_backend!(&self.backend, { Cpu(_) => 0, Cuda(plan) => plan.workspace_bytes() })
    }

    /// The kernel on the CUDA device, with its tile sizes, registers and cubin; `None` on the CPU. A union has a kernel
    /// for each branch, and this is the first.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn kernel(&self) -> Option<&attn_kernels::cuda::Kernel> {
        self.backend.as_cuda().map(CudaPlan::kernel)
    }
}
