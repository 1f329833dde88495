//! The CPU backend: the same variant, batch, plan and output as on a GPU, through the same Rust hooks.
//!
//! [`run`] is the fast path: f32, vectorised, parallel over work items and KV heads; partial states are merged in the
//! order of keys. [`oracle`] is the reference for every backend: plain loops that accumulate in f64, without tiles and
//! splits. [`check_tile_classes`] checks the tile classes of a variant against its mask.
//!
//! A hook that stores ([`OutTensor`](crate::lang::OutTensor)) is called at least for every attended logit. Whether it
//! is also called for masked logits is unspecified. It is never called for keys past the last one.

mod checked_problem;
mod classes;
mod error;
mod finalize;
mod key_run;
mod math;
mod oracle;
#[cfg(test)]
mod packed_tests;
mod problem;
mod read;
mod run;
mod softmax_step;
mod threads;
mod tile;
mod write;

pub use classes::{UnsoundTile, check_tile_classes};
pub use error::CpuError;
pub use oracle::{OracleOut, RowRounding, oracle, oracle_partial, oracle_with};
pub use problem::{Problem, check_variant, mixed_rule, plan_rule, work_of};
pub use run::{run, run_partial};
