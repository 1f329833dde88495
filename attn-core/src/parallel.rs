//! Collectives between ranks, for attention whose keys or heads are on several devices. On the CPU ranks are threads of
//! one process ([`ThreadRank`]).
//!
//! All ranks of a group make the same calls in the same order, with tensors of the same types and shapes. A rank that
//! does not is found out: every rank gets an error that says who did what, within the time limit of the group, and the
//! group stays broken.

mod call;
pub mod coordinates;
mod error;
mod group;
mod interleaved_shard;
mod launcher;
mod thread_rank;
mod zigzag_shard;

#[cfg(test)]
mod tests;

pub use call::{Call, Collective};
pub use error::ParallelError;
pub use interleaved_shard::InterleavedShard;
pub use launcher::Launched;
pub use thread_rank::ThreadRank;
pub use zigzag_shard::ZigzagShard;
