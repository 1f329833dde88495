//! Tests of attention variants, and the harness that attn-rs itself is checked and timed with.
//!
//! Add it as a dev-dependency. One line makes tests of a variant of your own, another a snapshot of its CUDA:
//!
//! ```
//! # use attn::prelude::*;
//! # #[derive(Clone, VariantParams)]
//! # struct EveryThird;
//! # #[attention_variant(name = "every_third_of_the_crate")]
//! # impl AttentionVariant for EveryThird {
//! #     fn logits_mask(&self, at: LogitIndex) -> bool {
//! #         at.kv_pos % 3 == 0
//! #     }
//! # }
//! attn_testing::variant_test!(EveryThird);
//!
//! /// Called from a `#[test]`.
//! fn snapshot() {
//!     attn_testing::cuda_snapshot!(EveryThird);
//! }
//! ```
//!
//! - [`variant_test!`] and [`properties`] check what every variant has to keep: derived tile classes, key lists,
//!   weights, splits of the keys, padding, and agreement with a reference.
//! - [`cuda_snapshot!`] snapshots the CUDA that a variant becomes.
//! - [`check`] runs a [`Case`] (variant, kernel, heads, dtypes, layout, lengths, seed: one line of a case file) and
//!   compares it with a reference that accumulates in f64. [`bench()`] times it. The `attn` command does the same with
//!   files of cases.
//! - [`bit_exact()`] and [`wide_offsets()`] compare runs that must give the same bits.
//! - [`grid`] holds the grids of cases that the library is checked on.
//!
//! Inputs are N(0, 1), rounded to the dtype, and depend on the seed alone. Pages are shuffled over a pool with spare
//! pages. Every slot without a key is NaN, and so are outputs and workspaces before a run: a kernel that reads such
//! memory produces NaN, which fails the check.

mod attended_pairs;
mod bench;
mod bit_exact;
#[cfg(doctest)]
mod book;
mod case;
mod case_layout;
mod case_variant;
mod check;
mod counting;
mod engine_memory;
mod error;
mod expected;
mod fill;
pub mod grid;
mod host;
mod info;
mod inputs;
mod interleave;
mod json;
mod kept_lists;
mod kept_pages;
#[cfg(feature = "cuda")]
mod kernels;
mod keys;
mod metrics;
mod other_batch;
mod outputs;
mod packed;
mod peer;
pub mod properties;
mod random;
mod run_modes;
mod run_parts;
mod sampling_bench;
mod setup;
mod shared;
#[cfg(feature = "snapshots")]
mod snapshot;
mod support;
mod table;
mod tables;
mod tensors;
mod wide_offsets;

pub use attended_pairs::attended;
pub use bench::{BenchResult, Prepared, bench, bench_mode};
pub use bit_exact::{BitExactResult, bit_exact, bit_exact_runs};
pub use case::Case;
pub use case_layout::{LayoutKind, Lens, LevelCase, Order, Pool};
pub use case_variant::{case_variant, filled_variant};
pub use check::{CheckOptions, CheckResult, check, check_with};
pub use error::TestError;
pub use expected::{Expected, Rounding};
pub use fill::example_expression;
pub use host::{Host, HostScale};
pub use info::Info;
pub use inputs::Inputs;
pub use json::parse_json;
pub use kept_pages::{KeptPages, ListsOf};
#[cfg(feature = "cuda")]
pub use kernels::add_kernels;
pub use keys::{BlockTableBuf, Keys, LevelBuf};
pub use metrics::{Distance, Tolerance};
pub use outputs::StoredOutputs;
pub use packed::HostTensor;
pub use peer::SharedResult;
pub use properties::check_variant;
pub use random::Random;
pub use run_modes::RunMode;
pub use sampling_bench::{PreparedSampling, SamplingBenchCase};
pub use shared::{SharedRun, SharedTensors};
pub use support::{case_plans, case_supports};
pub use table::Table;
pub use wide_offsets::{WIDE_OFFSET_ELEMENTS, WideOffsetsResult, wide_offset_cases, wide_offsets};

/// What the macros expand to. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use attn;

    pub use crate::fill::{Generator, generator, with_generators};
    #[cfg(feature = "snapshots")]
    pub use insta;

    #[cfg(feature = "snapshots")]
    pub use crate::snapshot::cuda_of;
}
