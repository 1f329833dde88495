//! Which kernel of an attention runs.

use attn_core::batch::Layout;

use crate::select::SelectedKernel;

/// A kernel of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelKey {
    pub(crate) selected: SelectedKernel,
    pub(crate) paged: bool,
    /// Of a mixed kernel: whether work items may have rows of several requests.
    pub(crate) shared_rows: bool,
}

impl KernelKey {
    /// The selected kernel for a batch.
    pub(crate) fn for_batch(selected: SelectedKernel, layout: &Layout) -> Self {
        KernelKey { selected, paged: layout.pages().is_some(), shared_rows: layout.has_levels() }
    }

    /// The selected kernel for batches without cascade levels.
    pub(crate) fn without_levels(selected: SelectedKernel, paged: bool) -> Self {
        KernelKey { selected, paged, shared_rows: false }
    }
}
