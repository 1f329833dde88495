//! What can fail.

use crate::engine::Refused;

/// An error of the engine or of the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of attention, sampling or memory.
    #[error(transparent)]
    Attn(#[from] attn::Error),
    /// An error of pages, prefixes or sequences.
    #[error(transparent)]
    Cache(#[from] attn_cache::CacheError),
    /// A request that is not run.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A failure of a model, in words.
    #[error("the model failed: {0}")]
    Model(String),
    /// A trace, or options of a benchmark, that make no sense.
    #[error("the benchmark cannot run: {what}")]
    Bench {
        /// What is wrong, and what is possible.
        what: String,
    },
}
