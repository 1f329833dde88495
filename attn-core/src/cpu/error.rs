//! What can be wrong with a run on the CPU.

use crate::{lang::Normalizer, plan::PlanError, tensor::TensorError};

/// What can be wrong with a run on the CPU. Nothing is written when there is an error.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuError {
    /// A tensor that does not fit.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Work that does not belong to the batch.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Work that was planned for other heads.
    #[error("the work was planned for {planned} query heads per KV head; these heads have {group}")]
    Group {
        /// What it was planned for.
        planned: u32,
        /// What there is.
        group: u32,
    },
    /// Work that leaves a partial state, or a slot of a merge, out.
    #[error("slot {slot} is merged, but no work item fills it for that tile")]
    Slot {
        /// The slot.
        slot: u32,
    },
    /// Work that was planned for a variant with other lists or another union.
    #[error("the work was planned for {planned}; this variant has {has}")]
    Arms {
        /// What it was planned for.
        planned: String,
        /// What there is.
        has: String,
    },
    /// A sink where there is no maximum.
    #[error("`{variant}` adds a sink, which `Normalizer::{normalizer:?}` has no place for; take one of the two out")]
    Sink {
        /// The part that has the sink.
        variant: &'static str,
        /// The normaliser.
        normalizer: Normalizer,
    },
}
