//! A variant bound to heads, element types and a device; its kernels are compiled and loaded when first needed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use attn_core::{
    batch::{Batch, BatchCapacity, BatchError, Layout},
    dtype::Dtypes,
    expr::Variant,
    plan::{self, MixedList, MixedRule, PlanError, PlanRule, SharedRule, Sight, Sights},
    spec::{Heads, KernelKind, KvStored, PrefillTemplate, ValueRows},
};

use super::{
    CudaError, Device, Family, Kernel, Plan, Stream, Workspace,
    args::Args,
    device_plan::Planner,
    plan::{Schedule, Sections},
    work::{Counts, Rule, Work},
};
use crate::{
    cell::{Cell, CellRequest},
    compile::Arch,
    cost::HookClass,
    family::Families,
    jit,
    splice::{KernelSource, PlannerSource, has_key_hooks, has_key_list, has_value_hooks},
};

/// What may be said of an attention beyond heads and types.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// What `q . k` is multiplied by; `1 / sqrt(head_dim)` unless given.
    pub sm_scale: Option<f32>,
    /// The kernel family; its decode tile is then that for the longest request. Unless given, each batch runs the one that is predicted to be done
    /// with it soonest.
    pub kernel: Option<KernelKind>,
    /// The template of prefill.
    pub prefill: PrefillTemplate,
    /// What keys and values are, for a variant that rewrites them.
    pub stored: KvStored,
    /// How wide values are, and where.
    pub values: ValueRows,
    /// A request gives the same bits alone and in any batch: its keys are cut at multiples of so many, and nowhere else (rounded up to what a
    /// kernel takes at a time; at least 1). Its kernel family is that of its own queries, unless `kernel` names one; a batch whose requests
    /// ask for both is an error.
    pub batch_invariant: Option<u32>,
}

/// A bound variant. Plans are made from it. Cheap to clone. `Send` and `Sync`: threads may plan at once, each into a workspace of its own.
#[derive(Clone, Debug)]
pub struct Attention {
    pub(super) inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
pub(super) struct Inner {
    pub(super) device: Device,
    pub(super) variant: Variant,
    /// The variants of one launch each: one, but for a union.
    pub(super) arms: Vec<Variant>,
    pub(super) heads: Heads,
    pub(super) values: ValueRows,
    pub(super) dtypes: Dtypes,
    pub(super) sm_scale: f32,
    kernel: Option<KernelKind>,
    prefill: PrefillTemplate,
    batch_invariant: Option<u32>,
    /// What a batch is given to.
    families: Families,
    hooks: HookClass,
    /// Whether shapes or conditions of the variant's parameters name lengths of a batch.
    depends_on_lengths: bool,
    /// One for each arm.
    pub(super) args: Vec<Arc<Args>>,
    /// Those of all attentions that differ in parameters alone.
    kernels: Arc<Mutex<HashMap<KernelOf, ArmKernels>>>,
    planner: Arc<Mutex<Option<Arc<Planner>>>>,
    /// What those see, and this one.
    pub(super) sights: Arc<Sights>,
    pub(super) sight: Sight,
}

/// One for each arm.
type ArmKernels = Vec<Arc<Kernel>>;

/// Which kernel of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct KernelOf {
    family: Family,
    paged: bool,
    /// Of a mixed one: whether items may have rows of several requests.
    shared_rows: bool,
}

impl KernelOf {
    fn new(family: Family, layout: &Layout) -> Self {
        KernelOf { family, paged: layout.pages().is_some(), shared_rows: layout.has_levels() }
    }

    fn without_levels(family: Family, paged: bool) -> Self {
        KernelOf { family, paged, shared_rows: false }
    }
}

impl Attention {
    /// Binds a variant: checks its parameters, uploads its tensors. Compiles nothing yet.
    ///
    /// # Errors
    ///
    /// Heads or types without a kernel, a hook that no kernel runs, a parameter that does not fit.
    pub fn new(
        device: &Device,
        variant: &Variant,
        heads: Heads,
        dtypes: Dtypes,
        options: Options,
    ) -> Result<Self, CudaError> {
        heads.check()?;
        options.values.check(heads)?;
        let variant = variant.bind(&options.values.dims(heads, heads.dims()))?.over(options.stored);
        let arms = variant.arms();
        let hooks = HookClass::of(&variant);
        let (major, minor) = device.capability();
        let any = |rewrites: fn(&Variant) -> bool| arms.iter().any(rewrites);
        let request = CellRequest {
            kind: options.kernel.unwrap_or(KernelKind::Prefill),
            head_dim: heads.head_dim,
            values: options.values,
            dtypes,
            paged: true,
            group: heads.group(),
            key_hooks: any(has_key_hooks),
            value_hooks: any(has_value_hooks),
            key_lists: any(has_key_list),
            template: options.prefill,
            arch: Arch::for_device(major, minor),
        };
        let sights = Arc::new(Sights::default());
        let inner = Inner {
            args: upload_args(device, &arms)?,
            sight: sights.of(&variant),
            sights,
            arms,
            device: device.clone(),
            depends_on_lengths: names_lengths(&variant),
            families: families_of(&variant, Families::new(&request, hooks, heads, device.multiprocessors())?),
            hooks,
            variant,
            heads,
            values: options.values,
            dtypes,
            sm_scale: heads.sm_scale(options.sm_scale)?,
            kernel: options.kernel,
            prefill: options.prefill,
            batch_invariant: options.batch_invariant,
            kernels: Arc::default(),
            planner: Arc::default(),
        };
        let attention = Attention { inner: Arc::new(inner) };
        // refuse now what no kernel can do
        let mixed = options.kernel == Some(KernelKind::Mixed);
        if mixed && options.batch_invariant.is_some() {
            return Err(PlanError::NotMixed { what: "a batch-invariant attention" }.into());
        }
        for kind in [KernelKind::Prefill, KernelKind::Decode, KernelKind::Mixed] {
            if options.kernel.map_or(kind != KernelKind::Mixed, |asked| asked == kind) {
                let arch = if mixed { Arch::for_device(major, minor) } else { Arch::new(8, 0) };
                let kernel = KernelOf::without_levels(attention.of_kind(kind, attention.rows(1)), false);
                attention.inner.arms.iter().try_for_each(|arm| attention.source(arm, kernel, arch).map(|_| ()))?;
            }
        }
        Ok(attention)
    }

    /// The bound variant.
    #[must_use]
    pub fn variant(&self) -> &Variant {
        &self.inner.variant
    }
    /// Its heads.
    #[must_use]
    pub fn heads(&self) -> Heads {
        self.inner.heads
    }
    /// How wide values are, and where.
    #[must_use]
    pub fn values(&self) -> ValueRows {
        self.inner.values
    }
    /// Elements of a value, and of an output.
    pub(super) fn value_dim(&self) -> u32 {
        self.inner.values.dim(self.inner.heads)
    }
    /// Its element types.
    #[must_use]
    pub fn dtypes(&self) -> Dtypes {
        self.inner.dtypes
    }
    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The source of an arm's kernel for an architecture.
    fn source(&self, arm: &Variant, kernel: KernelOf, arch: Arch) -> Result<KernelSource, CudaError> {
        let Inner { heads, values, dtypes, .. } = &*self.inner;
        let KernelOf { family, paged, shared_rows } = kernel;
        let request = CellRequest {
            kind: family.kind,
            head_dim: heads.head_dim,
            values: *values,
            dtypes: *dtypes,
            paged,
            group: family.rows,
            key_hooks: has_key_hooks(arm),
            value_hooks: has_value_hooks(arm),
            // the same for all arms, which share a list of work
            key_lists: self.inner.arms.iter().any(has_key_list),
            template: self.inner.prefill,
            arch,
        };
        let cell = Cell::choose(&request)?;
        Ok(KernelSource::build(arm, &if shared_rows { cell.with_shared_rows() } else { cell })?)
    }

    /// Queries that share a list of keys, if a request has so many; `None` for a variant without lists.
    fn queries_of_a_list(&self) -> Option<u64> {
        let (_, queries) = self.inner.variant.kv_list_sizes()?;
        Some(u64::try_from(queries).unwrap_or(1).max(1))
    }

    /// The kernel of a family, compiled and loaded if it is not yet. Planning does this; call it to have it done earlier. Of a
    /// union, that of its first arm; the others are made ready too.
    ///
    /// # Errors
    ///
    /// No cubin, or one that does not load.
    pub fn kernel(&self, kind: KernelKind, paged: bool) -> Result<Arc<Kernel>, CudaError> {
        let family = self.of_kind(kind, self.rows(1));
        Ok(self.kernels(KernelOf::without_levels(family, paged))?.swap_remove(0)) // there is one arm at least
    }

    fn kernels(&self, of: KernelOf) -> Result<ArmKernels, CudaError> {
        let mut kernels = self.inner.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = kernels.get(&of) {
            return Ok(kernels.clone());
        }
        let device = &self.inner.device;
        let load = |arm| {
            let ready = jit::obtain_for_device(device.capability(), |arch| self.source(arm, of, arch))?;
            Ok(Arc::new(Kernel::load(device, ready)?))
        };
        let loaded = self.inner.arms.iter().map(load).collect::<Result<ArmKernels, CudaError>>()?;
        kernels.insert(of, loaded.clone());
        Ok(loaded)
    }

    /// The kernel that plans batches whose lengths are on the device, compiled and loaded if it is not yet. Not for unions.
    pub(super) fn planner(&self) -> Result<Arc<Planner>, CudaError> {
        let Inner { device, variant, planner, .. } = &*self.inner;
        let mut known = planner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(planner) = &*known {
            return Ok(planner.clone());
        }
        let source = |arch| Ok::<_, CudaError>(PlannerSource::build(variant, arch)?);
        let planner =
            Arc::new(Planner::load(device, &jit::obtain_for_device(device.capability(), source)?, c"attn_plan")?);
        *known = Some(planner.clone());
        Ok(planner)
    }

    /// The kernel family for a batch: the one that is predicted to be done with it soonest ([`Families`]), which is decode where a request has no more
    /// rows (queries times query heads of a KV head) than one of its tiles. Under lists of keys, and in batch-invariant mode, decode where the longest
    /// request, or those of its rows that share a list, are one tile, and else prefill.
    #[must_use]
    pub fn choose(&self, layout: &Layout) -> KernelKind {
        self.family_of(layout).kind
    }

    pub(super) fn family_of(&self, layout: &Layout) -> Family {
        let Inner { kernel, batch_invariant, families, heads, .. } = &*self.inner;
        if layout.has_levels() || *kernel == Some(KernelKind::Mixed) {
            return Family::mixed(families.rows_of_few(layout), heads.head_dim, self.value_dim());
        }
        if kernel.is_some() || batch_invariant.is_some() || self.queries_of_a_list().is_some() {
            return self.family(layout.max_qo_len());
        }
        families.cheapest(layout)
    }

    /// The kernel family where all that is known is that requests have up to so many queries: decode where they are one tile of it.
    fn family(&self, qo_len: usize) -> Family {
        let rows = self.rows(qo_len);
        let few = qo_len <= 1 && self.queries_of_a_list().is_none()
            || rows <= Cell::most_decode_rows(self.inner.heads.head_dim, self.value_dim()).into();
        let by_batch = if few { KernelKind::Decode } else { KernelKind::Prefill };
        self.of_kind(self.inner.kernel.unwrap_or(by_batch), rows)
    }

    fn of_kind(&self, kind: KernelKind, rows: u64) -> Family {
        match kind {
            KernelKind::Prefill => Family::PREFILL,
            KernelKind::Decode => Family::decode(rows, self.inner.heads.head_dim, self.value_dim()),
            // requests of one query decode, whatever else is in the batch
            KernelKind::Mixed => Family::mixed(self.rows(1), self.inner.heads.head_dim, self.value_dim()),
        }
    }

    /// Packed rows that a tile should hold, where requests have up to so many queries.
    fn rows(&self, qo_len: usize) -> u64 {
        let queries = qo_len.max(1) as u64;
        let together = self.queries_of_a_list().map_or(queries, |of_list| of_list.min(queries));
        together * u64::from(self.inner.heads.group())
    }

    /// Where requests may not depend on each other: refuses those that run another family when they are alone.
    pub(super) fn check_family(&self, layout: &Layout, runs: Family) -> Result<(), CudaError> {
        if self.inner.batch_invariant.is_none() {
            return Ok(());
        }
        let asking = (0..layout.batch()).filter(|&request| layout.qo_len(request) > 0);
        let mut asking = asking.map(|request| (request, self.family(layout.qo_len(request))));
        match asking.find(|&(_, asks)| asks != runs) {
            Some((request, asks)) => Err(CudaError::OtherKernel { request, asks, runs }),
            None => Ok(()),
        }
    }

    /// Bytes of workspace that a plan of this batch takes, exactly.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`].
    pub fn workspace_size(&self, batch: &Batch<'_>) -> Result<usize, CudaError> {
        self.workspace_size_for(batch, &[])
    }

    /// Bytes of workspace that a plan with this capacity takes, exactly, whatever its batch.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan_with_capacity`].
    pub fn workspace_size_with_capacity(&self, capacity: &BatchCapacity) -> Result<usize, CudaError> {
        let (capacity, kernels, rule) = self.kernels_within(capacity)?;
        let room = Counts::of(&capacity, self.variant(), self.heads(), &rule)?;
        Ok(Sections::within(self.heads(), self.value_dim(), &kernels, &room, &capacity)?.bytes)
    }

    /// Plans a batch into a workspace, which grows if it must. Returns when the plan has arrived on the device; waits for the
    /// device first where a run may still read the workspace's plan before.
    ///
    /// # Errors
    ///
    /// A batch that is not sound, a parameter that does not fit its lengths, no kernel, or no memory.
    pub fn plan(&self, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, CudaError> {
        self.plan_in(None, batch, &[], workspace)
    }

    /// As [`Attention::plan`], without waiting: the plan arrives in the order of the stream, the only one that may run it. Where
    /// the workspace's plan before ran on another stream, this waits for the device all the same.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`].
    pub fn plan_on(&self, stream: &Stream, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, CudaError> {
        self.plan_in(Some(stream), batch, &[], workspace)
    }

    pub(super) fn plan_in(
        &self,
        stream: Option<&Stream>,
        batch: &Batch<'_>,
        layers: &[&Attention],
        workspace: &mut Workspace,
    ) -> Result<Plan, CudaError> {
        let device = &self.inner.device;
        device.check_same("workspace", workspace.device())?;
        if let Some(stream) = stream {
            device.check_same("stream", stream.device())?;
        }
        let layout = batch.validate()?;
        let bound = self.bound(&layout)?;
        let args = self.args_for(&bound)?;
        let layers = self.layers(&layout, layers)?;
        let (layout, schedule) = self.schedule_of(&bound, &layers, layout)?;
        let mut plan = Plan::put(self, stream, layout, schedule, args, workspace)?;
        plan.layers = layers;
        Ok(plan)
    }

    /// As [`Attention::plan`], with room for every batch up to a size, so that the plan can be given others ([`Plan::update`]), and what is captured
    /// of it be replayed with them. The kernel family is that of the capacity, and all batches run it. But for that, work is cut as by
    /// [`Attention::plan`], and a batch gives the same bits.
    ///
    /// With room for levels ([`BatchCapacity::in_levels`]) the family is mixed, and cascades run along their levels where that pays; elsewhere, and of a variant or
    /// heads for which keys cannot be shared, without.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`], and a batch that is past the capacity.
    pub fn plan_with_capacity(
        &self,
        batch: &Batch<'_>,
        capacity: &BatchCapacity,
        workspace: &mut Workspace,
    ) -> Result<Plan, CudaError> {
        self.plan_for_with_capacity(batch, &[], capacity, workspace)
    }

    /// As [`Attention::plan_with_capacity`], for layers: see [`Attention::plan_for`].
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
    ) -> Result<Plan, CudaError> {
        self.inner.device.check_same("workspace", workspace.device())?;
        let layout = batch.validate()?;
        let (capacity, kernels, rule) = self.kernels_within(capacity)?;
        let layout = self.levels_within(layout, &capacity, &rule)?;
        capacity.check(&layout)?;
        self.check_family(&layout, Family::of(kernels[0].cell()))?; // there is one arm at least
        let bound = self.bound(&layout)?;
        let args = self.args_for(&bound)?;
        let layers = self.layers(&layout, layers)?;
        let work = Work::build(&rule, &bound, layers.iter().map(Attention::variant), &layout, self.inner.heads)?;
        let schedule = Schedule { kernels, rule, work };
        let mut plan = Plan::put_within(self, &capacity, layout, schedule, args, workspace)?;
        plan.layers = layers;
        Ok(plan)
    }

    /// The arguments of the first arm, and the variant that they are of.
    pub(super) fn first_arm(&self) -> (&Args, &Variant) {
        (&self.inner.args[0], &self.inner.arms[0]) // there is one arm at least
    }

    /// The variant, with tensors over the batch's lengths if it has such.
    pub(super) fn bound(&self, layout: &Layout) -> Result<Variant, CudaError> {
        let &Inner { ref variant, heads, values, .. } = &*self.inner;
        Ok(variant.bind(&values.dims(heads, layout.dims(heads)))?)
    }

    /// The arguments of each arm.
    fn args_for(&self, bound: &Variant) -> Result<Vec<Arc<Args>>, CudaError> {
        let Inner { device, args, .. } = &*self.inner;
        let of_arm = |(arm, known): (Variant, &Arc<Args>)| {
            if known.are_of(&arm) { Ok(known.clone()) } else { Ok(Arc::new(Args::upload(device, &arm)?)) }
        };
        bound.arms().into_iter().zip(args).map(of_arm).collect()
    }

    /// Whether plans have tensors of their own, of defaults that follow the lengths of a batch.
    pub(super) fn has_defaults_over_lengths(&self) -> bool {
        has_defaults_over_lengths(&self.inner.variant)
    }

    /// Whether parameters of the variant depend on the lengths of a batch.
    pub(super) fn depends_on_lengths(&self) -> bool {
        self.inner.depends_on_lengths
    }

    /// What runs a batch, and the batch as it is run: one with levels is run without them where they do not pay, or cannot be run.
    pub(super) fn schedule_of(
        &self,
        bound: &Variant,
        layers: &[Attention],
        layout: Layout,
    ) -> Result<(Layout, Schedule), CudaError> {
        let flat = |layout: Layout| {
            let schedule = self.schedule(bound, layers, &layout, self.family_of(&layout))?;
            Ok((layout, schedule))
        };
        if !layout.has_levels() {
            return flat(layout);
        }
        let Inner { heads, kernel, batch_invariant, .. } = &*self.inner;
        if batch_invariant.is_some() {
            return flat(layout.flattened().ok_or(PlanError::Levels { what: "a batch-invariant attention" })?);
        }
        // the kernel is asked for its rule; where there is none, keys of each request are run if that can be
        let mixed = MixedList::supports(bound, &layout).map_err(CudaError::from);
        let of = KernelOf::new(self.family_of(&layout), &layout);
        let (kernels, rule) = match (mixed.and_then(|()| self.kernels_and_rule(of)), layout.flattened()) {
            (Ok(of_mixed), _) => of_mixed,
            (Err(_), Some(without)) => return flat(without),
            (Err(error), None) => return Err(error),
        };
        if let (Rule::Mixed(rule), None) = (&rule, kernel)
            && let Some(without) = MixedList::flat_instead(bound, &layout, *heads, rule)?
        {
            return flat(without);
        }
        let work = Work::build(&rule, bound, layers.iter().map(Attention::variant), &layout, *heads)?;
        Ok((layout, Schedule { kernels, rule, work }))
    }

    pub(super) fn schedule(
        &self,
        bound: &Variant,
        layers: &[Attention],
        layout: &Layout,
        family: Family,
    ) -> Result<Schedule, CudaError> {
        self.check_family(layout, family)?;
        let (kernels, rule) = self.kernels_and_rule(KernelOf::new(family, layout))?;
        let work = Work::build(&rule, bound, layers.iter().map(Attention::variant), layout, self.inner.heads)?;
        Ok(Schedule { kernels, rule, work })
    }

    /// What runs the batches of a plan with a capacity, how they are cut, and the capacity as it is kept to. With more levels than one these are the kernels whose
    /// items have rows of several requests, whatever the batch; where there are none, there is room for one level alone.
    fn kernels_within(&self, capacity: &BatchCapacity) -> Result<(BatchCapacity, ArmKernels, Rule), CudaError> {
        let Inner { device, arms, heads, batch_invariant, variant, .. } = &*self.inner;
        let (qo_len, paged) = (capacity.qo_len as usize, capacity.pages.is_some());
        if capacity.levels > 1 && batch_invariant.is_none() && MixedList::supports_levels(variant).is_ok() {
            let most = Cell::most_decode_rows(heads.head_dim, self.value_dim());
            // requests of one query decode, whatever else is in the batch
            let rows = Some(self.rows(qo_len)).filter(|&rows| rows <= most.into()).unwrap_or_else(|| self.rows(1));
            let family = Family::mixed(rows, heads.head_dim, self.value_dim());
            let of = KernelOf { family, paged, shared_rows: true };
            let (major, minor) = device.capability();
            let arch = Arch::for_device(major, minor);
            if arms.iter().all(|arm| self.source(arm, of, arch).is_ok()) {
                let (kernels, rule) = self.kernels_and_rule(of)?;
                return Ok((*capacity, kernels, rule));
            }
        }
        let (kernels, rule) = self.kernels_and_rule(KernelOf::without_levels(self.family(qo_len), paged))?;
        Ok((capacity.in_levels(1), kernels, rule))
    }

    /// A batch as a plan with a capacity runs it: a cascade along its levels, if there is room for them and they pay, or without.
    pub(super) fn levels_within(
        &self,
        layout: Layout,
        capacity: &BatchCapacity,
        rule: &Rule,
    ) -> Result<Layout, CudaError> {
        let Inner { heads, kernel, variant, batch_invariant, .. } = &*self.inner;
        if !layout.has_levels() {
            return Ok(layout);
        }
        if let Rule::Mixed(rule) = rule
            && capacity.levels > 1
        {
            capacity.check(&layout)?;
            // whichever it is, this kernel runs it
            let rule = MixedRule { shared: SharedRule { slower: 0, ..rule.shared }, ..*rule };
            let flat = match kernel {
                None => MixedList::flat_instead(variant, &layout, *heads, &rule)?,
                Some(_) => None,
            };
            return Ok(flat.unwrap_or(layout));
        }
        if let Some(flat) = layout.flattened() {
            return Ok(flat);
        }
        if batch_invariant.is_some() {
            return Err(PlanError::Levels { what: "a batch-invariant attention" }.into());
        }
        MixedList::supports(variant, &layout)?;
        Err(BatchError::LevelsInCapacity.into())
    }

    /// The kernels of a family, and how batches are cut for them.
    fn kernels_and_rule(&self, of: KernelOf) -> Result<(ArmKernels, Rule), CudaError> {
        let kernels = self.kernels(of)?;
        let (cell, resident) = (kernels[0].cell(), kernels[0].resident_ctas());
        let Inner { device, heads, hooks, .. } = &*self.inner;
        if of.family.kind == KernelKind::Mixed {
            let rule = cell.mixed_rule(resident, device.multiprocessors(), heads.kv, *hooks);
            return Ok((kernels, Rule::Mixed(rule)));
        }
        let step = kernels.iter().map(|kernel| kernel.cell().step_keys()).max().unwrap_or(1);
        let rule = cell.plan_rule(step, resident, heads.kv, *hooks);
        let fixed = self.inner.batch_invariant.map(|keys| plan::Schedule::Fixed { keys });
        Ok((kernels, Rule::Flat(PlanRule { schedule: fixed.unwrap_or(rule.schedule), ..rule })))
    }
}

/// The arguments of each arm, with their tensors on the device.
pub(super) fn upload_args(device: &Device, arms: &[Variant]) -> Result<Vec<Arc<Args>>, CudaError> {
    arms.iter().map(|arm| Ok(Arc::new(Args::upload(device, arm)?))).collect()
}

/// What a variant may run: no mixed launch of a union.
fn families_of(variant: &Variant, families: Families) -> Families {
    if variant.has_union() { families.without_mixed() } else { families }
}

/// Whether a parameter that is not given has as many values as a batch has requests or tokens.
fn has_defaults_over_lengths(variant: &Variant) -> bool {
    let mut fields = variant.parts().flat_map(|part| part.desc().fields);
    fields.any(|field| field.default.is_some() && says_lengths(field.shape))
}

/// Whether a shape or a condition of a parameter names a length of the batch.
fn names_lengths(variant: &Variant) -> bool {
    let mut fields = variant.parts().flat_map(|part| part.desc().fields);
    fields.any(|field| says_lengths(field.shape) || says_lengths(field.require.unwrap_or_default()))
}

fn says_lengths(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| ["batch", "qo_tokens", "kv_tokens"].contains(&word))
}

#[cfg(test)]
mod tests {
    use attn_core::lang::Tensor1;
    use attn_variants::{Causal, Documents, Sink, SoftCap};

    use super::{Variant, names_lengths};

    #[test]
    fn variants_over_lengths_of_a_batch_are_known() {
        let documents = Documents { of_query: Tensor1::unset(), of_key: Tensor1::unset() };
        assert!(names_lengths(&Variant::from(documents)));
        let others = [Causal.into(), SoftCap { cap: 30.0 }.into(), Sink { logits: Tensor1::unset() }.into()];
        assert!(others.iter().all(|variant| !names_lengths(variant)), "{others:?}");
    }
}
