//! A planned batch.

use attn_core::{
    batch::{BatchCapacity, BatchError, DeviceBatch, Layout},
    cpu,
    plan::{MixedList, WorkList},
    tensor::check_run,
};
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{Attention, Batch, Error, Kv, Out, Stream, TensorRef, Variant, attention::Bound};

/// A planned batch: ready to run any number of times. A plan that was made with a capacity can be given other batches ([`Plan::update`]).
///
/// `Send` and `Sync`: threads may run it at once. On CUDA on one stream, since runs of one plan that overlap in time mix their partial states, and take each other's work.
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
    /// Attentions with other parameters that the work is made for too.
    pub(crate) layers: Vec<Bound>,
    /// With tensors over this batch's lengths.
    pub(crate) variant: Variant,
    pub(crate) layout: Layout,
    pub(crate) work: CpuWork,
    /// `None`: the plan is of one batch.
    pub(crate) capacity: Option<BatchCapacity>,
}

/// What the CPU runs.
#[derive(Debug)]
pub(crate) enum CpuWork {
    /// Requests by themselves.
    Flat(WorkList),
    /// A cascade, whose requests share keys.
    Mixed(MixedList),
}

impl CpuPlan {
    fn run(
        &self,
        layer: Option<&Attention>,
        stream: &Stream,
        unfinished: bool,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        out: Out<'_>,
    ) -> Result<(), Error> {
        stream.check_cpu()?;
        let CpuPlan { attention, layers, variant, layout, work, .. } = self;
        let of_layer = match layer.map(Attention::cpu).transpose()? {
            Some(layer) => {
                attention.check_layer(layers, layer)?;
                let dims = layer.values.dims(layer.heads, layout.dims(layer.heads));
                let variant = layer.replaced(layout)?.map_or_else(|| layer.variant.bind(&dims), Ok)?;
                Some((variant, layer.sm_scale))
            }
            None => attention.replaced(layout)?.map(|variant| (variant, attention.sm_scale)),
        };
        let &Bound { heads, dtypes, values, sm_scale, .. } = attention;
        let (variant, sm_scale) = of_layer.as_ref().map_or((variant, sm_scale), |(variant, scale)| (variant, *scale));
        check_run(layout, heads, values, dtypes, &q, &kv, &out)?;
        let none = WorkList::default();
        let flat = if let CpuWork::Flat(work) = work { work } else { &none };
        let problem = cpu::Problem { variant, heads, values, sm_scale, layout, work: flat, q, kv };
        match (work, unfinished) {
            (CpuWork::Flat(_), false) => cpu::run(&problem, out)?,
            (CpuWork::Flat(_), true) => cpu::run_unfinished(&problem, out)?,
            (CpuWork::Mixed(list), false) => cpu::run_mixed(&problem, list, out)?,
            (CpuWork::Mixed(list), true) => cpu::run_mixed_unfinished(&problem, list, out)?,
        }
        Ok(())
    }

    /// Another batch within the capacity.
    fn replace(&mut self, layout: Layout, capacity: &BatchCapacity) -> Result<(), Error> {
        let layout = levels_within(layout, capacity)?;
        let (variant, layout, work) = self.attention.cut(layout, &self.layers)?;
        (self.variant, self.layout, self.work) = (variant, layout, work);
        Ok(())
    }
}

/// A batch that is within a capacity: a cascade without its levels, where there is no room for them.
pub(crate) fn levels_within(layout: Layout, capacity: &BatchCapacity) -> Result<Layout, BatchError> {
    let flat = (layout.has_levels() && capacity.levels <= 1).then(|| layout.flattened()).flatten();
    let layout = flat.unwrap_or(layout);
    capacity.check(&layout)?;
    Ok(layout)
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
    /// where stored elements stand for others ([`Kv::with_scales`]), and `out` gets o (qo tokens, qo heads, value_dim) and, if wanted, lse (qo tokens, qo heads).
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
            Inner::Cpu(plan) => plan.run(None, stream, false, q, kv, out),
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => Ok(plan.run(stream.cuda()?, q, kv, out)?),
        }
    }

    /// As [`Plan::run`], of rows that are left unfinished: neither sink nor `output_transform`. What is written is the state of each row over the keys
    /// of this batch: o, divided by its own denominator, and its log-sum-exp. Such states, over keys that they do not share, merge into that over
    /// all keys ([`state::merge_state`](crate::state::merge_state)); sink and `output_transform` are then applied once
    /// ([`state::finish_state`](crate::state::finish_state)). [`state`](crate::state) says what holds for which normaliser.
    ///
    /// # Errors
    ///
    /// As [`Plan::run`]; and an output without lse.
    pub fn run_unfinished(&self, stream: &Stream, q: TensorRef<'_>, kv: Kv<'_>, out: Out<'_>) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(plan) => plan.run(None, stream, true, q, kv, out),
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => Ok(plan.run_unfinished(stream.cuda()?, q, kv, out)?),
        }
    }

    /// As [`Plan::run`], with the parameters and the scale of logits of another attention, made from the plan's by
    /// [`Attention::with_parameters`] or [`Attention::with_sm_scale`]: the next layer of a model, without a plan of its own. What is captured of it reads the
    /// tensors of `layer`, which has to live as long as it is replayed.
    ///
    /// # Errors
    ///
    /// As [`Plan::run`]; a [`LayerError`](crate::planner::LayerError) for an attention of other kernels, and for one under whose parameters other keys are seen than the plan
    /// was made for ([`Attention::plan_for`]).
    pub fn run_as(
        &self,
        layer: &Attention,
        stream: &Stream,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        out: Out<'_>,
    ) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(plan) => plan.run(Some(layer), stream, false, q, kv, out),
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => Ok(plan.run_as(layer.cuda()?, stream.cuda()?, q, kv, out)?),
        }
    }

    /// As [`Plan::run_as`], of rows that are left unfinished, as [`Plan::run_unfinished`] says.
    ///
    /// # Errors
    ///
    /// As of both.
    pub fn run_unfinished_as(
        &self,
        layer: &Attention,
        stream: &Stream,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        out: Out<'_>,
    ) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(plan) => plan.run(Some(layer), stream, true, q, kv, out),
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => Ok(plan.run_unfinished_as(layer.cuda()?, stream.cuda()?, q, kv, out)?),
        }
    }

    /// Gives a plan that was made with a capacity ([`Attention::plan_with_capacity`](crate::Attention::plan_with_capacity)) another batch, in the order of
    /// the stream: runs that are given to it afterwards are of that batch, and so are replays of what was captured of this plan before. A request
    /// without queries writes nothing: a batch of fewer requests may be padded with such, or simply be shorter. A cascade may have other groups, and fewer levels
    /// than there is room for ([`BatchCapacity::in_levels`]), or none.
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
                plan.replace(batch.validate()?, &capacity)
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => Ok(plan.update(stream.cuda()?, batch)?),
        }
    }

    /// As [`Plan::update`], by the device: it reads lengths and pages from its own memory, when the stream gets there, and cuts the work itself, into the
    /// list that the host would have made, to the bit. Nothing waits, and no length is known on the host. It may be captured together with runs: each replay
    /// then plans anew, whatever the arrays hold by then. How many requests there are is fixed by the call; a request without queries is nothing.
    ///
    /// A batch that is not sound, or past the capacity, leaves nothing to do: runs write nothing, and [`Plan::device_status`] says what was wrong. The
    /// first call compiles and loads a kernel, which cannot be done under a capture: call it, or [`Plan::prepare_device_updates`], before.
    ///
    /// On the CPU the arrays are in memory of the host ([`Ints::host`](crate::batch::Ints::host)); they are read at once, and an error is given at once.
    ///
    /// ```
    /// use attn::{batch::{DeviceBatch, Ints}, prelude::*};
    ///
    /// let engine = Engine::cpu();
    /// let attention = engine.attention(&Variant::parse("full")?, Heads { qo: 4, kv: 2, head_dim: 8 }, Dtypes::f32())?;
    /// let (stream, mut workspace) = (engine.stream()?, engine.workspace());
    /// let first = Batch::ragged(&[0, 1, 2], &[0, 5, 7]);
    /// let mut plan = attention.plan_with_capacity(&first, &BatchCapacity::decode(2, 100), &mut workspace)?;
    ///
    /// // on a CUDA device: `Ints::device`, whose content kernels of the engine write from step to step; capture this together with `run`
    /// let (qo_indptr, kv_lens) = (Ints::host(&[0, 1, 2]), Ints::host(&[6, 3]));
    /// plan.update_on_device(&stream, &DeviceBatch::ragged(qo_indptr, kv_lens))?;
    /// plan.device_status(&stream)?;
    /// # assert_eq!(plan.layout().kv_indptr(), [0, 6, 9]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A plan without capacity; arrays that are in other memory, that do not go together, or of too many requests. On CUDA also a stale plan, and one of
    /// which there is no such kernel: of prefill, of a union, of lists of keys, of a variant with `kv_range` or with tensors over the lengths of a batch, and
    /// of a batch-invariant attention; those are for [`Plan::update`]. Nothing is changed then.
    pub fn update_on_device(&mut self, stream: &Stream, batch: &DeviceBatch<'_>) -> Result<(), Error> {
        match &mut self.inner {
            Inner::Cpu(plan) => {
                stream.check_cpu()?;
                let capacity = plan.capacity.ok_or(BatchError::NoCapacity)?;
                let elsewhere = Error::Backend { what: "batch", got: "a CUDA device", want: "the CPU" };
                plan.replace(batch.layout(capacity.pages)?.ok_or(elsewhere)?, &capacity)
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => Ok(plan.update_on_device(stream.cuda()?, batch)?),
        }
    }

    /// Makes ready what [`Plan::update_on_device`] needs, if that has not been done: on CUDA a kernel is compiled and loaded. An update may then be captured
    /// at once.
    ///
    /// # Errors
    ///
    /// A plan without capacity, or that only the host can update; no kernel and no compiler.
    pub fn prepare_device_updates(&mut self) -> Result<(), Error> {
        match &mut self.inner {
            Inner::Cpu(plan) => plan.capacity.map(|_| ()).ok_or_else(|| BatchError::NoCapacity.into()),
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => Ok(plan.prepare_device_updates()?),
        }
    }

    /// What was wrong with the batch that the device planned last ([`Plan::update_on_device`]), if anything. Waits for everything given to the device.
    ///
    /// # Errors
    ///
    /// What [`Plan::update`] would have said of that batch; a plan without capacity. On CUDA also a stale plan, a stream that is being captured, and what a
    /// kernel ran into.
    pub fn device_status(&self, stream: &Stream) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(plan) => {
                stream.check_cpu()?;
                plan.capacity.map(|_| ()).ok_or_else(|| BatchError::NoCapacity.into())
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(plan) => Ok(plan.device_status(stream.cuda()?)?),
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

    /// The batch, a cascade without its levels where it is run without them; after [`Plan::update_on_device`] on CUDA, that of which the host was told last.
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
