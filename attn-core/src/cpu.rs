//! The CPU backend: the same variant, batch, plan and output as on a GPU, in the same Rust hooks.
//!
//! [`run`] is the working path: f32, vectorised, parallel over work items and KV heads, partial states merged in slot
//! order; [`run_mixed`] is the same over a mixed list, whose items may have rows of several requests. [`oracle`] is the reference for every backend: plain loops that accumulate in f64, with no tiles and no
//! splitting. [`check_tile_classes`] checks the tile classes of a variant against its mask.
//!
//! A hook that stores ([`OutTensor`](crate::lang::OutTensor)) stores at least for every attended logit; whether it is called for masked ones, too, is
//! not said. It is never called for keys past the last one.

mod classes;
mod error;
mod finish;
mod math;
mod mixed;
mod oracle;
mod problem;
mod read;
mod run;
mod tile;
mod weights;
mod write;

pub use classes::{UnsoundTile, check_tile_classes};
pub use error::CpuError;
pub(crate) use finish::finish_divided;
pub use mixed::{run_mixed, run_mixed_unfinished};
pub use oracle::{OracleOut, RowRounding, oracle, oracle_with};
pub use problem::{Problem, check_variant, mixed_rule, plan_rule, work_of};
pub use run::{run, run_unfinished};
