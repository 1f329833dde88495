//! The kernels of an attention: their source, compiled and loaded, and the planner's rule for them.

use std::sync::Arc;

use attn_core::{
    expr::Variant,
    plan::{ListRule, PlanRule, Schedule},
    spec::KernelKind,
};

use super::{
    CudaError, Kernel,
    bound::BoundAttention,
    kernel_cache::{BranchKernels, KernelKey},
    planner::Planner,
};
use crate::{
    compile::Arch,
    jit,
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::{KernelSource, PlannerSource},
};

/// The kernels that run a batch, and the planner's rule for them.
pub(super) struct LoadedKernels {
    /// The kernel of each branch.
    pub(super) kernels: BranchKernels,
    pub(super) rule: ListRule,
}

impl LoadedKernels {
    /// The traits of the first branch's kernel. Those of the others differ in the fields that depend on hooks alone.
    pub(super) fn traits(&self) -> &KernelTraits {
        self.kernels[0].traits() // there is at least one branch
    }
}

impl BoundAttention {
    /// The source of a branch's kernel for an architecture.
    pub(super) fn source(&self, branch: &Variant, key: KernelKey, arch: Arch) -> Result<KernelSource, CudaError> {
        let KernelKey { selected, paged, shared_rows } = key;
        let request = KernelTraitsRequest {
            head_dim_vo: self.head_dim_vo,
            paged,
            group: selected.rows,
            prefill: self.prefill,
            decode: self.decode,
            row_invariant: self.fixed_split_size.is_some(),
            ..KernelTraitsRequest::new(selected.kind, self.heads.head_dim, self.dtypes, arch)
        };
        let traits = KernelTraits::choose(&request.with_hooks(&self.branches).for_branch(branch))?;
        Ok(KernelSource::build(branch, &if shared_rows { traits.with_shared_rows() } else { traits })?)
    }

    /// The kernels of all branches, and the planner's rule for them.
    pub(super) fn load(&self, key: KernelKey) -> Result<LoadedKernels, CudaError> {
        let kernels = self.kernels(key)?;
        let (traits, resident_ctas) = (kernels[0].traits(), kernels[0].resident_ctas());
        if key.selected.kind == KernelKind::Mixed {
            let sms = self.device.multiprocessors();
            let rule = ListRule::Mixed(traits.mixed_rule(resident_ctas, sms, self.heads.kv, self.hooks));
            return Ok(LoadedKernels { kernels, rule });
        }
        let step_keys = kernels.iter().map(|kernel| kernel.traits().step_keys()).max().unwrap_or(1);
        let rule = traits.plan_rule(step_keys, resident_ctas, self.heads.kv, self.hooks);
        let fixed = self.fixed_split_size.map(|keys| Schedule::FixedSplit { keys });
        let rule = ListRule::Flat(PlanRule { schedule: fixed.unwrap_or(rule.schedule), ..rule });
        Ok(LoadedKernels { kernels, rule })
    }

    /// The kernels of all branches, compiled and loaded the first time.
    pub(super) fn kernels(&self, key: KernelKey) -> Result<BranchKernels, CudaError> {
        let device = &self.device;
        let load = |branch| {
            let ready = jit::obtain_for_device(device.capability(), |arch| self.source(branch, key, arch))?;
            Ok(Arc::new(Kernel::load(device, ready)?))
        };
        self.kernels.kernels(key, || self.branches.iter().map(load).collect())
    }

    /// The source of the planner kernel. It does not support unions.
    pub(super) fn planner_source(&self, arch: Arch) -> Result<PlannerSource, CudaError> {
        Ok(PlannerSource::build(&self.variant, arch)?)
    }

    /// The planner kernel, compiled and loaded the first time.
    pub(super) fn planner(&self) -> Result<Arc<Planner>, CudaError> {
        self.kernels.planner(|| {
            let ready = jit::obtain_for_device(self.device.capability(), |arch| self.planner_source(arch))?;
            Planner::load(&self.device, &ready, c"attn_plan")
        })
    }

    /// Builds the sources of the kernels that batches may run, so that an unsupported problem is refused before the
    /// first plan. Compiles nothing.
    pub(super) fn check_sources(&self) -> Result<(), CudaError> {
        let (major, minor) = self.device.capability();
        let mixed = self.kernel == Some(KernelKind::Mixed);
        let arch = if mixed { Arch::for_device(major, minor) } else { Arch::new(8, 0) };
        for kind in [KernelKind::Prefill, KernelKind::Decode, KernelKind::Mixed] {
            if self.kernel.map_or(kind != KernelKind::Mixed, |forced| forced == kind) {
                let key = KernelKey::without_levels(self.selector.kernel_of(kind), false);
                self.branches.iter().try_for_each(|branch| self.source(branch, key, arch).map(|_| ()))?;
            }
        }
        Ok(())
    }
}
