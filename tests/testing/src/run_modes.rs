//! Run modes of a case: other ways to compute the same result, for comparison in benchmarks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A way to run a case. A case file asks for modes with `"ours_also": ["flat"]`, besides the case itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunMode {
    /// The case as it is.
    AsIs,
    /// The kernel that is selected by default.
    Auto,
    /// A cascade as a batch without levels: each request has all of its pages, which stay shared in memory.
    Flat,
    /// The mixed kernel with the default prefill backend, whatever kernel and backend the case names.
    Mixed,
    /// The mixed kernel with prefill on `mma.sync`.
    Sm80Mixed,
    /// The decode kernel.
    Decode,
    /// The prefill kernel whose keys pass through shared memory.
    Prefill,
    /// The prefill kernel whose keys stay in shared memory, where requests are short enough.
    Resident,
    /// Prefill for the requests with many rows, then decode for the others: two plans, one graph.
    Sequential,
    /// The same lengths with ragged keys.
    Ragged,
    /// The kept pages as a shorter page table, without a list. Heads must share them.
    Pages,
    /// Decode on tensor cores.
    TensorCores,
    /// Decode on CUDA cores.
    CudaCores,
}

impl RunMode {
    /// The name in case files; that of the case itself is `attn`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RunMode::AsIs => "attn",
            RunMode::Auto => "auto",
            RunMode::Flat => "flat",
            RunMode::Mixed => "mixed",
            RunMode::Sm80Mixed => "sm80_mixed",
            RunMode::Decode => "decode",
            RunMode::Prefill => "prefill",
            RunMode::Resident => "resident",
            RunMode::Sequential => "sequential",
            RunMode::Ragged => "ragged",
            RunMode::Pages => "pages",
            RunMode::TensorCores => "tensor_cores",
            RunMode::CudaCores => "cuda_cores",
        }
    }
}

impl fmt::Display for RunMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
