//! Attention whose keys are on several ranks: each runs over its own keys ([`InterleavedShard`],
//! [`RunOptions::partial`](crate::RunOptions::partial)), and the states are gathered and merged
//! ([`merge_states`](crate::ops::merge_states), [`finalize`](crate::state::finalize)).
//!
//! Ranks are threads of one process, with tensors in host memory ([`ThreadRank`]). There is no communicator between
//! CUDA devices yet.

pub use attn_core::parallel::{InterleavedShard, ParallelError, ThreadRank};
