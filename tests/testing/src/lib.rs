//! Tests of attention variants.
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
//!   compares it with a reference that accumulates in f64. The `attn` command does the same with files of cases.
//!
//! The feature `harness` adds what attn-rs itself is checked and timed with: grids of cases, timings, comparisons of
//! bits. An engine needs none of it.
//!
//! Inputs are N(0, 1), rounded to the dtype, and depend on the seed alone. Pages are shuffled over a pool with spare
//! pages. Every slot without a key is NaN, and so are outputs and workspaces before a run: a kernel that reads such
//! memory produces NaN, which fails the check.

// some of what follows serves the harness alone
#![cfg_attr(not(feature = "harness"), allow(dead_code))]

mod attended_pairs;
#[cfg(doctest)]
mod book;
mod case;
mod case_layout;
mod case_variant;
mod check;
mod counting;
mod device_arrays;
mod engine_memory;
mod error;
mod expected;
mod fill;
#[cfg(feature = "harness")]
mod harness;
mod host;
mod host_tensor;
mod info;
mod inputs;
mod interleave;
mod json;
mod kept_lists;
mod kept_pages;
mod keys;
mod kv_format_rows;
mod metrics;
mod other_batch;
mod outputs;
pub mod properties;
mod random;
mod run_modes;
mod setup;
#[cfg(feature = "snapshots")]
mod snapshot;
mod support;
mod table;
mod tables;
mod tensors;

pub use attended_pairs::attended;
pub use case::Case;
pub use case_layout::{LayoutKind, Lens, LevelCase, Order, Pool};
pub use case_variant::{case_variant, filled_variant};
pub use check::{CheckOptions, CheckResult, check, check_with};
pub use error::TestError;
pub use expected::{Expected, Rounding};
pub use fill::example_expression;
#[cfg(feature = "harness")]
pub use harness::*;
pub use host::{Host, HostScale};
pub use host_tensor::HostTensor;
pub use info::Info;
pub use inputs::Inputs;
pub use json::parse_json;
pub use kept_pages::{KeptPages, ListsOf};
pub use keys::{BlockTableBuf, Keys, LevelBuf};
pub use metrics::{Distance, Tolerance};
pub use outputs::StoredOutputs;
pub use properties::check_variant;
pub use random::Random;
pub use run_modes::RunMode;
pub use support::{case_plans, case_supports};
pub use table::Table;

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
