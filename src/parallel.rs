//! Attention over several devices: collectives between ranks, and attention whose keys are on several of them.
//!
//! A [`Communicator`] is a rank of a group: of threads where engines are CPUs, and of devices over NCCL, which is
//! loaded when the first one is made. All ranks make the same calls in the same order. A rank that fails is an error of
//! the others too, within the limit of the group: on a device work that waits for it ends, so wait for a stream of
//! collectives by [`Communicator::wait`].
//!
//! [`DecodeContextParallel`] merges what the ranks computed over their own keys, interleaved as [`InterleavedShard`]
//! says. [`HeadParallel`] shares out heads. [`PrefillContextParallel`] computes the queries of prompts that
//! [`ZigzagShard`] shares out.

mod communicator;
mod decode;
mod heads;
mod prefill;

pub use attn_core::parallel::{InterleavedShard, ParallelError, ZigzagShard};
pub use communicator::Communicator;
pub use decode::DecodeContextParallel;
pub use heads::HeadParallel;
pub use prefill::PrefillContextParallel;
