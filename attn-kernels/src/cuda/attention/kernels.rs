//! The kernels of an attention: their source, compiled and loaded, and the planner's rule for them.

use std::sync::Arc;

use attn_core::plan::{ListRule, PlanRule, Schedule};

use super::{bound::BoundAttention, kernel_cache::BranchKernels, planner::Planner};
use crate::compile::Arch;
use crate::cuda::{CudaError, Kernel};
use crate::jit;
use crate::kernel_traits::KernelTraits;
use crate::plan_rules::list_rule;
use crate::problem::KernelKey;
use crate::splice::{PlannerKind, PlannerSource};

/// The kernels that run a batch, and the planner's rule for them.
pub(in crate::cuda) struct LoadedKernels {
    /// The kernel of each branch.
    pub(in crate::cuda) kernels: BranchKernels,
    pub(in crate::cuda) rule: ListRule,
}

impl LoadedKernels {
    /// The traits of the first branch's kernel. Those of the others differ in what depends on hooks alone.
    pub(in crate::cuda) fn traits(&self) -> &KernelTraits {
        self.kernels[0].traits() // there is at least one branch
    }
}

impl BoundAttention {
    /// The kernels of all branches, and the planner's rule for them.
    pub(super) fn load(&self, key: KernelKey) -> Result<LoadedKernels, CudaError> {
        let kernels = self.kernels(key)?;
        let (traits, resident_ctas) = (kernels[0].traits(), kernels[0].resident_ctas());
        let step_keys = kernels.iter().map(|kernel| kernel.traits().step_keys()).max().unwrap_or(1);
        let (costs, sms) = (self.device.costs()?, self.device.multiprocessors());
        let rule = list_rule(traits, costs, self.hooks, step_keys, resident_ctas, sms, self.heads.kv);
        let fixed = self.fixed_split_size.map(|keys| Schedule::FixedSplit { keys });
        let rule = match rule {
            ListRule::Flat(rule) => ListRule::Flat(PlanRule { schedule: fixed.unwrap_or(rule.schedule), ..rule }),
            mixed @ ListRule::Mixed(_) => mixed,
        };
        Ok(LoadedKernels { kernels, rule })
    }

    /// The kernels of all branches, compiled and loaded the first time.
    pub(super) fn kernels(&self, key: KernelKey) -> Result<BranchKernels, CudaError> {
        let device = &self.device;
        let load = |branch| {
            let ready = jit::obtain_for_device(device.capability(), |arch| {
                Ok::<_, CudaError>(self.source(branch, key, arch)?)
            })?;
            Ok(Arc::new(Kernel::load(device, ready)?))
        };
        self.kernels.kernels(key, || self.branches.iter().map(load).collect())
    }

    /// The source of the planner kernel of a schedule. It does not support unions.
    pub(super) fn planner_source(&self, kind: PlannerKind, arch: Arch) -> Result<PlannerSource, CudaError> {
        Ok(PlannerSource::build(&self.variant, kind, arch)?)
    }

    /// The planner kernel of a schedule, compiled and loaded the first time.
    pub(in crate::cuda) fn planner(&self, kind: PlannerKind) -> Result<Arc<Planner>, CudaError> {
        self.kernels.planner(kind, || {
            let ready = jit::obtain_for_device(self.device.capability(), |arch| self.planner_source(kind, arch))?;
            Planner::load(&self.device, &ready, c"attn_plan")
        })
    }
}
