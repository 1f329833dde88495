//! The loaded kernels of an attention. Attentions that differ in parameters alone share them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use attn_core::batch::Layout;

use super::{CudaError, Kernel, SelectedKernel, planner::Planner};

/// The kernels of the branches of a variant: one, except for a union.
pub(super) type BranchKernels = Vec<Arc<Kernel>>;

/// A kernel of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct KernelKey {
    pub(super) selected: SelectedKernel,
    pub(super) paged: bool,
    /// Of a mixed kernel: whether work items may have rows of several requests.
    pub(super) shared_rows: bool,
}

impl KernelKey {
    /// The selected kernel for a batch.
    pub(super) fn for_batch(selected: SelectedKernel, layout: &Layout) -> Self {
        KernelKey { selected, paged: layout.pages().is_some(), shared_rows: layout.has_levels() }
    }

    /// The selected kernel for batches without cascade levels.
    pub(super) fn without_levels(selected: SelectedKernel, paged: bool) -> Self {
        KernelKey { selected, paged, shared_rows: false }
    }
}

/// The kernels that have been loaded so far.
#[derive(Debug, Default)]
pub(super) struct KernelCache {
    kernels: Mutex<HashMap<KernelKey, Slot>>,
    planner: Mutex<Option<Arc<Planner>>>,
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

    /// The planner kernel; `load` compiles and loads it the first time.
    pub(super) fn planner(&self, load: impl FnOnce() -> Result<Planner, CudaError>) -> Result<Arc<Planner>, CudaError> {
        let mut known = self.planner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(planner) = &*known {
            return Ok(planner.clone());
        }
        let planner = Arc::new(load()?);
        *known = Some(planner.clone());
        Ok(planner)
    }
}
