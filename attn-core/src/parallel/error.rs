//! Errors of collectives.

use std::time::Duration;

/// Errors of collectives. Whichever rank makes a mistake, every rank of the group gets one, and later calls get it
/// again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum ParallelError {
    /// Ranks made different calls.
    #[error(
        "rank {rank} calls {call}, and rank {other} calls {other_call}; all ranks make the same calls in one order"
    )]
    Mismatch { rank: usize, call: String, other: usize, other_call: String },
    /// A rank was dropped, or its thread panicked.
    #[error("rank {rank} has left the group: it was dropped, or its thread panicked")]
    Left { rank: usize },
    /// Ranks did not come in time.
    #[error("ranks {missing:?} did not come to {call} within {limit:?}")]
    TimedOut { missing: Vec<usize>, call: String, limit: Duration },
    /// A rank gave the group up.
    #[error("rank {rank} aborted the group: {why}")]
    Aborted { rank: usize, why: String },
}
