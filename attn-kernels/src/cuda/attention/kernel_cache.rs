//! The loaded kernels of an attention. Attentions that differ in parameters alone share them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::planner::Planner;
use crate::cuda::{CudaError, Kernel};
use crate::problem::KernelKey;
use crate::splice::PlannerKind;

/// The kernels of the branches of a variant: one, except for a union.
pub(in crate::cuda) type BranchKernels = Vec<Arc<Kernel>>;

/// The kernels that have been loaded so far.
#[derive(Debug, Default)]
pub(super) struct KernelCache {
    kernels: Mutex<HashMap<KernelKey, Slot>>,
    planners: Mutex<HashMap<PlannerKind, Arc<Planner>>>,
}

/// The kernels of a key. Its lock is held while they are compiled and loaded, so that other keys do not wait.
type Slot = Arc<Mutex<Option<BranchKernels>>>;

impl KernelCache {
    /// The kernels of a key; `load` compiles and loads them the first time.
    pub(super) fn kernels(
        &self,
        key: KernelKey,
        load: impl FnOnce() -> Result<BranchKernels, CudaError>,
    ) -> Result<BranchKernels, CudaError> {
        let slot = self.kernels.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*slot {
            return Ok(known.clone());
        }
        Ok(slot.insert(load()?).clone())
    }

    /// The planner kernel of a schedule; `load` compiles and loads it the first time.
    pub(super) fn planner(
        &self,
        kind: PlannerKind,
        load: impl FnOnce() -> Result<Planner, CudaError>,
    ) -> Result<Arc<Planner>, CudaError> {
        let mut known = self.planners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(planner) = known.get(&kind) {
            return Ok(planner.clone());
        }
        let planner = Arc::new(load()?);
        known.insert(kind, planner.clone());
        Ok(planner)
    }
}
