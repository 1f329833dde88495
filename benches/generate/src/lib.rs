//! What measures the engine of `examples/generate`.
//!
//! - [`trace`], [`replay()`], [`Report`]: traces of requests, latencies and throughput (`generate-bench`).
//! - [`tables`]: the tables of FlashInfer's paper on a model (`paper_tables`).
//!
//! `generate-check` compares a model on a device with logits of other code, and times it.

mod replay;
mod report;
pub mod tables;
pub mod trace;

pub use replay::replay;
pub use report::{Report, Summary};

/// The median of values, the mean of the middle two where their number is even.
///
/// # Panics
///
/// Without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}
