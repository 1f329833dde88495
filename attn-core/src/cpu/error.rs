//! Errors of the CPU backend.

use crate::{lang::Normalizer, plan::PlanError, tensor::TensorError};

/// Why the CPU backend refuses a run. Nothing is written if there is an error.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum CpuError {
    /// A tensor of the wrong shape, type or memory.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A work list that does not belong to the batch.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A work list that was planned for another ratio of query heads to KV heads.
    #[error("the work was planned for {planned} query heads per KV head; these heads have {group}")]
    Group { planned: u32, group: u32 },
    /// A work list that was planned for a variant with other key lists, or another union.
    #[error("the work was planned for {planned}; this variant has {has}")]
    Branches { planned: String, has: String },
    /// A part whose Rust was read as text: there is no compiled hook to call.
    #[error(
        "`{variant}` was read from Rust text, which runs on CUDA devices alone; give it `#[attention_variant]` in a \
         program to run it on the CPU"
    )]
    Text { variant: &'static str },
    /// A sink under a normaliser without a row maximum.
    #[error("`{variant}` adds a sink, which `Normalizer::{normalizer:?}` has no place for; take one of the two out")]
    Sink { variant: &'static str, normalizer: Normalizer },
}
