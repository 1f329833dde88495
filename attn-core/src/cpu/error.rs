//! What can be wrong with a run on the CPU.

use crate::{
    lang::{Hook, Normalizer},
    plan::PlanError,
    tensor::TensorError,
};

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
    /// A hook that no kernel runs yet.
    #[error("`{variant}` has {}, which the CPU backend does not support yet; {WAY_OUT}", .hook.method())]
    Hook {
        /// The part that wrote it.
        variant: &'static str,
        /// The hook.
        hook: Hook,
    },
    /// A normaliser that no kernel runs yet, or not with these hooks.
    #[error("`{variant}` has `Normalizer::{normalizer:?}`, which the CPU backend does not support{why}; {WAY_OUT}")]
    Normalizer {
        /// The part that has it.
        variant: &'static str,
        /// The normaliser.
        normalizer: Normalizer,
        /// With what, if not at all.
        why: &'static str,
    },
}

const WAY_OUT: &str = "take the part out, or fold it into the tensors before the call";
