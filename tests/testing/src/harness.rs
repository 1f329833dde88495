//! What attn-rs itself is checked and timed with: grids of cases, timings, comparisons of bits, peers.
//!
//! [`bench()`] times a [`Case`](crate::Case). [`bit_exact()`] and [`wide_offsets()`] compare runs that must give the
//! same bits. [`grid`] holds the grids of cases that the library is checked on.

mod bench;
mod bit_exact;
mod clock;
pub mod grid;
#[cfg(feature = "cuda")]
mod kernels;
mod peer;
mod run_parts;
mod sampling_bench;
mod shared;
mod wide_offsets;

pub use bench::{BenchResult, Prepared, bench, bench_mode};
pub use bit_exact::{BitExactResult, bit_exact, bit_exact_runs};
#[cfg(feature = "cuda")]
pub use kernels::add_kernels;
pub use peer::SharedResult;
pub use sampling_bench::{PreparedSampling, SamplingBenchCase};
pub use shared::{SharedRun, SharedTensors};
pub use wide_offsets::{WIDE_OFFSET_ELEMENTS, WideOffsetsResult, wide_offset_cases, wide_offsets};
