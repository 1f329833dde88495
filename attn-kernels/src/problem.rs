//! An attention as kernels know it: what plans on a device, and those who ask without one, decide.

mod key;
mod lengths;
mod unsupported;

use attn_core::{
    dtype::Dtypes,
    expr::Variant,
    lang::Hook,
    plan::{PlanError, WorkList},
    spec::{AttentionOptions, ComputeType, ComputeTypeError, HeadDimVo, Heads, KernelKind},
};

use crate::compile::Arch;
use crate::cost::{CostTable, HookClass};
use crate::kernel_traits::{KernelTraits, KernelTraitsRequest};
use crate::select::{FixedChoice, KernelSelector};
use crate::splice::KernelSource;

pub(crate) use key::KernelKey;
#[cfg(feature = "cuda")]
pub(crate) use lengths::has_defaults_over_lengths;
pub use unsupported::Unsupported;
pub(crate) use unsupported::check_capability;
#[cfg(feature = "cuda")]
pub(crate) use unsupported::{not_on_device, too_old};

/// A variant bound to heads, element types and a kind of device.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) variant: Variant,
    /// The branches of a union, each of which has a launch of its own; for other variants the variant itself.
    pub(crate) branches: Vec<Variant>,
    pub(crate) heads: Heads,
    pub(crate) head_dim_vo: HeadDimVo,
    pub(crate) dtypes: Dtypes,
    pub(crate) sm_scale: f32,
    /// The kernel family that options name.
    pub(crate) kernel: Option<KernelKind>,
    compute_type: ComputeType,
    pub(crate) fixed_split_size: Option<u32>,
    pub(crate) skip_softmax: Option<f32>,
    pub(crate) selector: KernelSelector,
    pub(crate) hooks: HookClass,
    /// Whether shapes or requirements of the variant's parameters name lengths of a batch.
    pub(crate) depends_on_lengths: bool,
    /// The architecture of the device.
    arch: Arch,
}

impl Problem {
    /// Binds a variant for devices of a compute capability with a number of SMs, whose kernels have these costs.
    pub(crate) fn new(
        (major, minor): (u32, u32),
        multiprocessors: u32,
        costs: &CostTable,
        variant: &Variant,
        heads: Heads,
        dtypes: Dtypes,
        options: AttentionOptions,
    ) -> Result<Self, Unsupported> {
        heads.check()?;
        options.head_dim_vo.check(heads)?;
        variant.check_stored(options.stored, options.head_dim_vo)?;
        let (variant, dtypes) = variant.over(dtypes, options.head_dim_vo)?;
        let variant = variant.bind(&options.head_dim_vo.dims(heads, heads.dims()))?.with_stored(options.stored);
        options.compute_type.check(heads, options.head_dim_vo, dtypes, options.kernel, &variant)?;
        options.check_skip_softmax(&variant)?;
        let branches = variant.branches();
        let hooks = HookClass::of(&variant);
        let (kind, arch) = (options.kernel.unwrap_or(KernelKind::Prefill), Arch::for_device(major, minor));
        let request = KernelTraitsRequest {
            head_dim_vo: options.head_dim_vo,
            group: heads.group(),
            prefill: options.prefill,
            decode: options.decode,
            compute_type: options.compute_type,
            row_invariant: options.fixed_split_size.is_some(),
            skip_softmax: options.skip_softmax.is_some(),
            ..KernelTraitsRequest::new(kind, heads.head_dim, dtypes, arch).with_hooks(&branches)
        };
        let request = request.with_decode_backend(hooks, costs);
        let list_queries = variant.kv_list_sizes().map(|(_, queries)| u64::try_from(queries).unwrap_or(1).max(1));
        let fixed = FixedChoice { forced: options.kernel, list_queries, shares_partials: variant.has_union() };
        let selector = KernelSelector::new(&request, hooks, costs, heads, multiprocessors, fixed)?;
        let sm_scale = heads.sm_scale(options.sm_scale)?;
        if options.kernel == Some(KernelKind::Mixed) && options.fixed_split_size.is_some() {
            return Err(PlanError::NotMixed { what: "a batch-invariant attention" }.into());
        }
        let problem = Problem {
            branches,
            depends_on_lengths: lengths::names_lengths(&variant),
            selector,
            hooks,
            variant,
            heads,
            head_dim_vo: options.head_dim_vo,
            dtypes,
            sm_scale,
            kernel: options.kernel,
            compute_type: options.compute_type,
            fixed_split_size: options.fixed_split_size,
            skip_softmax: options.skip_softmax,
            arch,
        };
        problem.check_sources()?;
        Ok(problem)
    }

    /// The source of a branch's kernel for an architecture.
    pub(crate) fn source(&self, branch: &Variant, key: KernelKey, arch: Arch) -> Result<KernelSource, Unsupported> {
        let KernelKey { selected, paged, shared_rows } = key;
        let request = KernelTraitsRequest { paged, shared_rows, arch, ..self.selector.request_of(selected) };
        let traits = KernelTraits::choose(&request.for_branch(branch))?;
        Ok(KernelSource::build(branch, &traits)?)
    }

    /// Builds the sources of the kernels that batches may run, so that an unsupported problem is refused before the
    /// first plan. Compiles nothing.
    fn check_sources(&self) -> Result<(), Unsupported> {
        let of_device = self.kernel == Some(KernelKind::Mixed) || self.compute_type != ComputeType::Exact;
        let arch = if of_device { self.arch } else { Arch::new(8, 0) };
        self.kinds().try_for_each(|kind| {
            let key = KernelKey::without_levels(self.selector.kernel_of(kind, 1), false);
            self.branches.iter().try_for_each(|branch| self.source(branch, key, arch).map(drop))
        })
    }

    /// The kernel families that batches without levels may run whatever their lengths.
    fn kinds(&self) -> impl Iterator<Item = KernelKind> {
        let kinds = [KernelKind::Prefill, KernelKind::Decode, KernelKind::Mixed].into_iter();
        let forced = self.kernel;
        kinds.filter(move |&kind| forced.map_or(kind != KernelKind::Mixed, |forced| forced == kind))
    }

    /// Refuses a kernel for the device itself, as loading it would, in one layout of keys.
    pub(crate) fn check_kernels(&self, paged: bool) -> Result<(), Unsupported> {
        self.kinds()
            .try_for_each(|kind| self.check_kernel(KernelKey::without_levels(self.selector.kernel_of(kind, 1), paged)))
    }

    /// Refuses a kernel that a branch has no source for.
    pub(crate) fn check_kernel(&self, key: KernelKey) -> Result<(), Unsupported> {
        self.branches.iter().try_for_each(|branch| self.source(branch, key, self.arch).map(drop))
    }

    /// Refuses a variant whose batches do not run level by level. They run flattened, where that can be.
    pub(crate) fn check_levels(&self) -> Result<(), Unsupported> {
        if self.compute_type != ComputeType::Exact {
            return Err(ComputeTypeError::Mixed.into());
        }
        Ok(WorkList::supports_levels(&self.variant, self.fixed_split_size.is_some())?)
    }

    /// Refuses a cascade, as loading its kernel would.
    pub(crate) fn check_cascade(&self, paged: bool) -> Result<(), Unsupported> {
        self.check_levels()?;
        let selected = self.selector.kernel_of(KernelKind::Mixed, 1);
        self.check_kernel(KernelKey { selected, paged, shared_rows: true })
    }

    /// Refuses an attention that no planner kernel supports.
    pub(crate) fn check_device_updates(&self) -> Result<(), Unsupported> {
        let not = |what| Err(Unsupported::NotOnDevice { what });
        if self.branches.len() > 1 {
            return not("a union, whose branches have a list each");
        }
        if self.variant.has_kv_list() {
            return not("a variant whose keys come from lists");
        }
        if self.variant.has(Hook::KvRange) {
            return not("a variant with `kv_range`, which is asked for each head");
        }
        if let Some(what) = lengths::checked_by_batch(&self.variant) {
            return not(what);
        }
        Ok(())
    }
}
