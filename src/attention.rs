//! A variant bound to heads, element types and an engine.

use std::sync::{Arc, Mutex, PoisonError};

use attn_core::{
    batch::{BatchCapacity, Layout},
    cpu,
    plan::{LayerError, MixedList, MixedScratch, PlanRule, Schedule, Sight, Sights},
};
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::expr::TensorContent;
use crate::{
    Batch, Dtypes, Engine, Error, Heads, KernelKind, KvStored, Plan, PrefillTemplate, Stream, ValueRows, Variant,
    Workspace,
    engine::Backend,
    plan::{CpuPlan, CpuWork, levels_within},
};

/// What may be said of an attention beyond heads and types.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionOptions {
    /// What `q . k` is multiplied by; `1 / sqrt(head_dim)` unless given.
    pub sm_scale: Option<f32>,
    /// The kernel family; unless given, each batch runs the one that is predicted to be done with it soonest. The CPU has one for all.
    pub kernel: Option<KernelKind>,
    /// The template of prefill, on a GPU that runs more than one.
    pub prefill: PrefillTemplate,
    /// What keys and values are, for a variant with `key_transform` or `value_transform`: raw, unless it is said that they are transformed
    /// already, as in a cache whose keys were rotated when they were appended. Nothing rewrites them then, before or in a kernel.
    pub stored: KvStored,
    /// How wide values are, and where: as wide as keys and in a tensor of their own, unless said otherwise. Outputs are as wide as values.
    pub values: ValueRows,
    /// A request gives the same bits alone and in any batch: its keys are cut into pieces at multiples of so many keys (at least 1; rounded up
    /// to what a kernel takes at a time), and nowhere else. Fewer keys a piece keep a GPU busy with few requests, and take workspace and time to
    /// merge; 1024 to 4096 are a start. Without it keys are cut so that a batch is done soonest.
    ///
    /// On CUDA the kernel is then the one that the request's own queries ask for; a batch whose requests ask for different ones (of few queries, and of
    /// many) is an error. With `kernel` set to prefill, all run the same.
    pub batch_invariant: Option<u32>,
}

/// A variant bound to heads, element types and an engine. Plans are made from it. Cheap to clone. `Send` and `Sync`: threads may plan at once, each into a
/// workspace of its own.
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
    pub(crate) values: ValueRows,
    pub(crate) sm_scale: f32,
    batch_invariant: Option<u32>,
    /// What this sees, and all that differ from it in parameters alone.
    sight: Sight,
    sights: Arc<Sights>,
    /// With tensors that were replaced since; `None`: none was. Of all clones, and their plans.
    replaced: Arc<Mutex<Option<Variant>>>,
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
                options.values.check(heads)?;
                dtypes.check()?;
                cpu::check_variant(variant)?;
                let variant = variant.bind(&options.values.dims(heads, heads.dims()))?.over(options.stored);
                let sm_scale = heads.sm_scale(options.sm_scale)?;
                let sights = Arc::new(Sights::default());
                let sight = sights.of(&variant);
                let AttentionOptions { values, batch_invariant, .. } = options;
                let replaced = Arc::default();
                let bound =
                    Bound { variant, heads, dtypes, values, sm_scale, batch_invariant, sight, sights, replaced };
                Inner::Cpu(bound)
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                let AttentionOptions { sm_scale, kernel, prefill, stored, values, batch_invariant } = options;
                let options = cuda::Options { sm_scale, kernel, prefill, stored, values, batch_invariant };
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

    /// The same attention with other parameters, as another layer of a model has them (caps, slopes, sinks, windows, tables): of `variant`, which has the same
    /// parts in the same places. It shares the kernels, so that nothing is compiled, and a plan of this one runs it too
    /// ([`Plan::run_as`]). The scale of logits, and what keys are stored as, stay.
    ///
    /// ```
    /// use attn::prelude::*;
    ///
    /// let engine = Engine::cpu();
    /// let heads = Heads { qo: 4, kv: 2, head_dim: 8 };
    /// let [near, far] = ["causal + sliding_window(window=2)", "causal + sliding_window(window=64)"].map(Variant::parse);
    /// let near = engine.attention(&near?, heads, Dtypes::f32())?;
    /// let far = near.with_parameters(&far?)?.with_sm_scale(0.25)?;
    ///
    /// // one plan for all layers: it has the keys that any of them sees
    /// let plan = near.plan_for(&Batch::ragged(&[0, 1], &[0, 9]), &[&far], &mut engine.workspace())?;
    /// let (stream, q, keys) = (engine.stream()?, engine.upload(&[1f32; 32])?, engine.upload(&[1f32; 9 * 16])?);
    /// let mut o = engine.alloc(Dtype::F32, 32)?;
    /// for layer in [&near, &far] {
    ///     let keys = keys.tensor(&[9, 2, 8])?;
    ///     plan.run_as(layer, &stream, q.tensor(&[1, 4, 8])?, Kv::ragged(keys, keys), Out::new(o.tensor_mut(&[1, 4, 8])?))?;
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`LayerError::Structure`] where more than values differs; a parameter that does not fit the heads; on CUDA, no memory for tensors.
    pub fn with_parameters(&self, variant: &Variant) -> Result<Self, Error> {
        let inner = match &self.inner {
            Inner::Cpu(bound) => {
                let variant =
                    variant.bind(&bound.values.dims(bound.heads, bound.heads.dims()))?.over(bound.variant.stored());
                bound.variant.check_structure(&variant)?;
                let sight = bound.sights.of(&variant);
                Inner::Cpu(Bound { sight, variant, replaced: Arc::default(), ..bound.clone() })
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => Inner::Cuda(attention.with_parameters(variant)?),
        };
        Ok(Attention { inner })
    }

    /// The same attention with another factor of `q . k`, which shares kernels and plans with this one as [`Attention::with_parameters`] says.
    ///
    /// # Errors
    ///
    /// One that is not positive and finite.
    pub fn with_sm_scale(&self, sm_scale: f32) -> Result<Self, Error> {
        let inner = match &self.inner {
            Inner::Cpu(bound) => Inner::Cpu(Bound { sm_scale: bound.heads.sm_scale(Some(sm_scale))?, ..bound.clone() }),
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => Inner::Cuda(attention.with_sm_scale(sm_scale)?),
        };
        Ok(Attention { inner })
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

    /// Bytes of workspace that a plan with this capacity takes, exactly, whatever its batch; 0 on the CPU.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan_with_capacity`].
    pub fn workspace_size_with_capacity(&self, capacity: &BatchCapacity) -> Result<usize, Error> {
        match &self.inner {
            Inner::Cpu(_) => Ok(capacity.largest().map(|_| 0)?),
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => Ok(attention.workspace_size_with_capacity(capacity)?),
        }
    }

    /// Bytes of workspace that [`Attention::plan_for`] takes, exactly; 0 on the CPU.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan_for`].
    pub fn workspace_size_for(&self, batch: &Batch<'_>, layers: &[&Attention]) -> Result<usize, Error> {
        match &self.inner {
            Inner::Cpu(bound) => {
                bound.layers(&cpu_layers(layers)?)?;
                Ok(batch.validate().map(|_| 0)?)
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => Ok(attention.workspace_size_for(batch, &cuda_layers(layers)?)?),
        }
    }

    /// As [`Attention::plan`], for several layers: the plan runs as any of `layers` too ([`Plan::run_as`]), which were made by
    /// [`Attention::with_parameters`] or [`Attention::with_sm_scale`]. Where these see other keys (another window), work is made for all that any of them
    /// sees, and each skips what its own mask hides; where some see far fewer, a plan of their own is faster. Layers that see the same keys
    /// (other caps, slopes, sinks, scales) need not be named.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`], and a [`LayerError`] for a layer that cannot share it.
    pub fn plan_for(&self, batch: &Batch<'_>, layers: &[&Attention], workspace: &mut Workspace) -> Result<Plan, Error> {
        match &self.inner {
            Inner::Cpu(bound) => Ok(Plan::cpu(plan_cpu(bound, batch.validate()?, &cpu_layers(layers)?, workspace)?)),
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => {
                Ok(Plan::cuda(attention.plan_for(batch, &cuda_layers(layers)?, workspace.cuda()?)?))
            }
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
            Inner::Cpu(bound) => Ok(Plan::cpu(plan_cpu(bound, batch.validate()?, &[], workspace)?)),
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
                Ok(Plan::cpu(plan_cpu(bound, batch.validate()?, &[], workspace)?))
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => Ok(Plan::cuda(attention.plan_on(stream.cuda()?, batch, workspace.cuda()?)?)),
        }
    }

    /// As [`Attention::plan`], with room in the workspace for every batch up to a size, so that the plan can be given others in place
    /// ([`Plan::update`]). A run of it that was captured in a CUDA graph is then replayed with them: its launches and addresses are those of the
    /// capacity. Every batch gives the same bits as a plan of its own, if the capacity asks for the same kernel (on CUDA one for few queries a request, or many).
    ///
    /// A cascade is run without its levels, unless the capacity has room for levels ([`BatchCapacity::in_levels`]): then along them where that pays, and on CUDA all
    /// batches run a mixed launch.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`], and a batch that is past the capacity.
    ///
    /// # Example
    ///
    /// A loop that decodes. Lengths and pages change from step to step, and nothing else.
    ///
    /// ```
    /// use attn::{batch::PageTableBuf, prelude::*};
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
    /// let table = |lens: &[u32]| PageTableBuf::from_lens(lens, page_size, num_pages, { let mut page = -1; move || { page += 1; page } });
    /// let mut plan = attention.plan_with_capacity(&Batch::paged(&[0, 1, 2, 3], &table(&lens).table()), &capacity, &mut workspace)?;
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

    /// As [`Attention::plan_with_capacity`], for several layers, as [`Attention::plan_for`] says.
    ///
    /// # Errors
    ///
    /// As of both.
    pub fn plan_for_with_capacity(
        &self,
        batch: &Batch<'_>,
        layers: &[&Attention],
        capacity: &BatchCapacity,
        workspace: &mut Workspace,
    ) -> Result<Plan, Error> {
        match &self.inner {
            Inner::Cpu(bound) => {
                capacity.largest()?;
                let layout = levels_within(batch.validate()?, capacity)?;
                let plan = plan_cpu(bound, layout, &cpu_layers(layers)?, workspace)?;
                Ok(Plan::cpu(CpuPlan { capacity: Some(*capacity), ..plan }))
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => {
                let layers = cuda_layers(layers)?;
                Ok(Plan::cuda(attention.plan_for_with_capacity(batch, &layers, capacity, workspace.cuda()?)?))
            }
        }
    }

    /// Puts what runs stored for this attention into the handles of its `OutTensor`s, as
    /// [`Plan::fetch_outputs`] does for the attention that a plan is of.
    ///
    /// # Errors
    ///
    /// A stream of another backend, or what a kernel ran into.
    pub fn fetch_outputs(&self, stream: &Stream) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(_) => stream.check_cpu(),
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => {
                stream.cuda()?;
                Ok(attention.read_outputs()?)
            }
        }
    }

    pub(crate) fn cpu(&self) -> Result<&Bound, Error> {
        match &self.inner {
            Inner::Cpu(bound) => Ok(bound),
            #[cfg(feature = "cuda")]
            Inner::Cuda(_) => Err(Error::Backend { what: "attention", got: "a CUDA device", want: "the CPU" }),
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&self) -> Result<&cuda::Attention, Error> {
        self.as_cuda().ok_or(Error::Backend { what: "attention", got: "the CPU", want: "a CUDA device" })
    }

    /// Replaces the content of a captured tensor that was given when the attention was made: `pages` of a `page_list`, `page_list.pages` where several parts
    /// have such a name. Its shape stays. Nothing is planned or compiled: what is given to the stream later reads the new values, in every plan of this
    /// attention, and in replays of what was captured of them. So a decode loop under one CUDA graph chooses other pages at each step and layer.
    /// Values of the host may be changed on return; if they are in pinned memory, when the stream has got there.
    ///
    /// Plans of a variant with lists of keys are made for lists as long as the attention was made with, and kernels look at the length again when they run: make it with
    /// the longest ([`PageList::room`](crate::stock::PageList::room)); what a longer list has beyond is not read.
    ///
    /// ```
    /// use attn::{expr::TensorContent, prelude::*, stock::PageList};
    ///
    /// // two requests of one query, one KV head, up to 4 pages of 2 keys each
    /// let engine = Engine::cpu();
    /// let heads = Heads { qo: 1, kv: 1, head_dim: 8 };
    /// let attention = engine.attention(&PageList::room(2, 4, 2, 1)?.into(), heads, Dtypes::f32())?;
    /// let (stream, mut workspace) = (engine.stream()?, engine.workspace());
    /// let plan = attention.plan(&Batch::ragged(&[0, 1, 2], &[0, 8, 16]), &mut workspace)?;
    ///
    /// // on a CUDA device: capture both copies, from memory that kernels of the engine write (`TensorContent::device`), and the run
    /// attention.set_tensor(&stream, "pages", &TensorContent::host(&[3i32, 0, 0, 0, 1, 2, 0, 0]))?;
    /// attention.set_tensor(&stream, "count", &TensorContent::host(&[1i32, 2]))?;
    ///
    /// let (q, k) = (vec![0f32; 2 * 8], vec![0f32; 16 * 8]);
    /// let v: Vec<f32> = (0..16).flat_map(|key| [key as f32; 8]).collect();
    /// let mut o = vec![0f32; q.len()];
    /// let tensor = |data| TensorRef::host(data, &[16, 1, 8]);
    /// let out = Out::new(TensorMut::host(&mut o, &[2, 1, 8])?);
    /// plan.run(&stream, TensorRef::host(&q, &[2, 1, 8])?, Kv::ragged(tensor(&k)?, tensor(&v)?), out)?;
    /// assert_eq!((o[0], o[8]), (6.5, 11.5)); // keys 6 and 7; keys 2 to 5 of the second
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContentError`](crate::expr::ContentError) for a tensor that more than kernels read (masks over tiles, `kv_range`), that was not given, values of another type,
    /// number or memory, or that a condition of the parameter refuses (on the CPU alone: on CUDA nobody looks at them). On CUDA also values of the host
    /// while the stream is being captured.
    pub fn set_tensor(&self, stream: &Stream, name: &str, content: &TensorContent<'_>) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(bound) => {
                stream.check_cpu()?;
                bound.replace(name, content)
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(attention) => Ok(attention.set_tensor(stream.cuda()?, name, content)?),
        }
    }

    /// Where kernels read a captured tensor on the device, row-major: kernels of the engine may write it there themselves, in the order of a stream, where
    /// [`Attention::set_tensor`] would copy. The address stays while this attention lives, or a plan of it.
    ///
    /// # Errors
    ///
    /// As [`Attention::set_tensor`]; [`Error::Backend`] on the CPU.
    #[cfg(feature = "cuda")]
    pub fn tensor_ptr(&self, name: &str) -> Result<u64, Error> {
        match &self.inner {
            Inner::Cpu(_) => Err(Error::Backend { what: "tensor", got: "a CUDA device", want: "the CPU" }),
            Inner::Cuda(attention) => Ok(attention.tensor_ptr(name)?),
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

fn cpu_layers<'a>(layers: &[&'a Attention]) -> Result<Vec<&'a Bound>, Error> {
    layers.iter().map(|layer| layer.cpu()).collect()
}

#[cfg(feature = "cuda")]
fn cuda_layers<'a>(layers: &[&'a Attention]) -> Result<Vec<&'a cuda::Attention>, Error> {
    layers.iter().map(|layer| layer.cuda()).collect()
}

fn plan_cpu(bound: &Bound, layout: Layout, layers: &[&Bound], workspace: &Workspace) -> Result<CpuPlan, Error> {
    workspace.check_cpu()?;
    let layers = bound.layers(layers)?;
    let (variant, layout, work) = bound.cut(layout, &layers)?;
    Ok(CpuPlan { attention: bound.clone(), layers, variant, layout, work, capacity: None })
}

impl Bound {
    /// Puts other values into a tensor of the variant that runs.
    fn replace(&self, name: &str, content: &TensorContent<'_>) -> Result<(), Error> {
        let mut replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut variant = replaced.as_ref().unwrap_or(&self.variant).clone();
        variant.set_content(&self.variant.tensor_slot(name)?, content)?;
        *replaced = Some(variant);
        Ok(())
    }

    /// The variant with the tensors that were replaced, for a batch; `None` where none was.
    pub(crate) fn replaced(&self, layout: &Layout) -> Result<Option<Variant>, Error> {
        let replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        replaced.map(|variant| Ok(variant.bind(&self.values.dims(self.heads, layout.dims(self.heads)))?)).transpose()
    }

    /// Those of `layers` for which work has to be made: each sees other keys than this one and those before it.
    fn layers(&self, layers: &[&Bound]) -> Result<Vec<Bound>, LayerError> {
        let mut others: Vec<Bound> = Vec::new();
        for layer in layers {
            if !self.shares_kernels(layer) {
                return Err(LayerError::Stranger);
            }
            if ![self].into_iter().chain(&others).any(|other| other.sight == layer.sight) {
                others.push((*layer).clone());
            }
        }
        Ok(others)
    }

    /// As on a GPU: whether one was made from the other.
    fn shares_kernels(&self, other: &Bound) -> bool {
        Arc::ptr_eq(&self.sights, &other.sights)
    }

    /// Refuses a layer that a plan of this one, made for `layers` too, cannot run.
    pub(crate) fn check_layer(&self, layers: &[Bound], layer: &Bound) -> Result<(), LayerError> {
        if !self.shares_kernels(layer) {
            return Err(LayerError::Stranger);
        }
        let sees = [self].into_iter().chain(layers).any(|known| known.sight == layer.sight);
        if sees { Ok(()) } else { Err(LayerError::NotPlanned) }
    }

    /// The variant with tensors over the batch's lengths, the batch as it is run, and its work, for other layers too. A cascade runs along its levels
    /// where that pays, and the variant lets keys be shared; else without them, or request by request over them.
    pub(crate) fn cut(&self, layout: Layout, layers: &[Bound]) -> Result<(Variant, Layout, CpuWork), Error> {
        let dims = self.values.dims(self.heads, layout.dims(self.heads));
        let variant = self.variant.bind(&dims)?;
        let others = layers.iter().map(|layer| layer.variant.bind(&dims)).collect::<Result<Vec<_>, _>>()?;
        let rule = cpu::plan_rule(self.heads);
        let fixed = self.batch_invariant.map(|keys| Schedule::Fixed { keys });
        let rule = PlanRule { schedule: fixed.unwrap_or(rule.schedule), ..rule };
        let layout = match layout.has_levels() {
            false => layout,
            true => {
                let mixed = cpu::mixed_rule(self.heads);
                let flat = MixedList::flat_instead(&variant, &layout, self.heads, &mixed)?;
                if flat.is_none() && fixed.is_none() && MixedList::supports(&variant, &layout).is_ok() {
                    let (mut list, mut scratch) = (MixedList::default(), MixedScratch::default());
                    list.rebuild_for_all(&mut scratch, &variant, &others, &layout, self.heads, &mixed)?;
                    return Ok((variant, layout, CpuWork::Mixed(list)));
                }
                flat.unwrap_or(layout)
            }
        };
        let work = cpu::work_of(&variant, &others, &layout, self.heads, &rule)?;
        Ok((variant, layout, CpuWork::Flat(work)))
    }
}
