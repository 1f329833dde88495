//! Errors of collectives.

use std::time::Duration;

use crate::ErrorKind;

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
    /// Collectives on a device did not end in time: a rank failed, left, or made another call.
    #[error(
        "the collectives of rank {rank} did not end within {limit:?}: another of {ranks} ranks failed, left, or made \
        another call; the communicator is aborted"
    )]
    NoAnswer { rank: usize, ranks: usize, limit: Duration },
    /// What ranks cannot do together.
    #[error("{what} over several ranks is not supported; {way}")]
    Unsupported { what: &'static str, way: &'static str },
    /// A hook reads a coordinate that is another one on a rank than in one run.
    #[error("over several ranks the `{coordinate}` that `{part}` reads in `{hook}` is {on_a_rank}; {way}")]
    Coordinate {
        part: &'static str,
        hook: &'static str,
        coordinate: &'static str,
        on_a_rank: &'static str,
        way: &'static str,
    },
    /// A rank that the group does not have.
    #[error("rank {rank} of {ranks}; ranks are counted from 0")]
    Rank { rank: usize, ranks: usize },
    /// Heads that do not divide among the ranks.
    #[error("{heads} heads do not divide among {ranks} ranks; take fewer ranks, or the outputs of all heads")]
    Heads { heads: usize, ranks: usize },
    /// More query tokens than there is memory for.
    #[error("{tokens} query tokens, and there is memory for the states of {most}; make it for more")]
    Tokens { tokens: usize, most: usize },
    /// A variable of the launcher of processes.
    #[error("the environment variable `{name}` is {got}, which has to be {want}")]
    Launcher { name: &'static str, got: String, want: &'static str },
    /// A call of the library of collectives failed.
    #[error("NCCL could not {what}: {why}")]
    Library { what: &'static str, why: String },
    /// No library of collectives.
    #[error("no NCCL: {tried}. Install NCCL 2.14 or later, or name its library in `ATTN_NCCL`")]
    NoLibrary { tried: String },
}

impl ParallelError {
    /// What the error is about.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            ParallelError::Unsupported { .. } | ParallelError::Coordinate { .. } | ParallelError::Heads { .. } => {
                ErrorKind::Unsupported
            }
            ParallelError::Tokens { .. } => ErrorKind::InvalidTensor,
            ParallelError::NoLibrary { .. } => ErrorKind::NoDevice,
            ParallelError::NoAnswer { .. } | ParallelError::Library { .. } => ErrorKind::Cuda,
            // ranks that contradict each other
            _ => ErrorKind::InvalidArgument,
        }
    }
}
