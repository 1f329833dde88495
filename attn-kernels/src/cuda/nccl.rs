//! Collectives between devices, over NCCL, which is loaded at run time.

mod api;
mod rank;

pub use rank::NcclRank;
