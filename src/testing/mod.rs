//! Cases, checks and timings as a library: what `attn check` and `attn bench` do, for tests and benches of one's own.
//!
//! A [`Case`] is a line of a case file: variant, kernel, heads, dtypes, layout, lengths, seed. [`check`] compares what
//! an engine computes for it with a reference that accumulates in f64; [`bench()`] times it; [`check_variant`] checks a variant of
//! one's own in one line, and [`variant_test!`](crate::variant_test) makes tests of its promises. [`grid`] holds the grids that this library is checked on.
//!
//! Data is random by the seed alone, N(0, 1) rounded to the dtype. Pages are shuffled over a pool with spare pages;
//! every slot without a key is NaN, and so are outputs and workspaces before a run: a kernel that reads what it should not
//! gives NaN, and a NaN fails.

mod bench;
mod case;
mod check;
mod error;
mod far;
mod fill;
mod forms;
pub mod grid;
mod inputs;
mod kept_pages;
mod keys;
mod metrics;
mod outputs;
mod pairs;
mod place;
pub mod promises;
mod random;
mod same;
mod setup;
mod shared;
mod tensors;
mod weave;

pub use bench::{BenchResult, Info, Prepared, bench, bench_form};
pub use case::{Case, LayoutKind, Lens, LevelCase, Order, Pool};
pub use check::{CheckOptions, CheckResult, case_variant, check, check_with, complete};
pub use error::TestError;
pub use far::{FAR_ELEMENTS, FarResult, far};
pub use fill::some_expression;
pub use forms::Form;
pub use inputs::{Host, HostScale, Inputs};
pub use kept_pages::{KeptPages, ListsOf};
pub use keys::{BlockTableBuf, Keys, LevelBuf};
pub use metrics::{Distance, Tolerance};
pub use outputs::Stored;
pub use pairs::attended;
pub use promises::check_variant;
pub use same::{SameResult, same};
pub use shared::{SharedRun, SharedTensors};
