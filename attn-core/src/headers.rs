//! The CUDA headers that are made of Rust: one source for what the host and the kernels compute to the bit.

use crate::lang::{bits, divide, interval, param_tensor, random};
use crate::sampling::fixed_point;

/// A header: where templates include it, and its text.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// The name in `#include`.
    pub name: &'static str,
    /// The text; it may include others.
    pub text: &'static str,
}

/// A struct that the host passes to kernels; `#[derive(CudaStruct)]` implements it.
pub trait CudaStruct: Sized {
    /// Its name.
    const NAME: &'static str;
    /// Its definition in CUDA.
    const TEXT: &'static str;
    /// Its fields by their names in CUDA, and their offsets; without a base.
    const FIELDS: &'static [(&'static str, usize)];
}

/// Every header that is made of Rust code of this crate.
pub const HEADERS: &[Header] = &[
    Header { name: "lang/signed_divisor.cuh", text: divide::signed::CUDA },
    Header { name: "lang/unsigned_divisor.cuh", text: divide::unsigned::CUDA },
    Header { name: "lang/interval_fn.cuh", text: interval::functions::CUDA },
    Header { name: "lang/wide_fn.cuh", text: interval::wide::CUDA },
    Header { name: "lang/table_range.cuh", text: param_tensor::bounds::CUDA },
    Header { name: "merge/groups.cuh", text: crate::plan::MERGE_GROUPS },
    Header { name: "planner/cascade_cost.cuh", text: crate::plan::CASCADE_COST },
    Header { name: "planner/merge_units.cuh", text: crate::plan::MERGE_UNITS },
    Header { name: "planner/kv_splits.cuh", text: crate::plan::KV_SPLITS },
    Header { name: "planner/stream_k_line.cuh", text: crate::plan::STREAM_K_LINE },
    Header { name: "planner/worker_share.cuh", text: crate::plan::WORKER_SHARE },
    Header { name: "lang/random.cuh", text: random::CUDA },
    Header { name: "lang/bits.cuh", text: bits::CUDA },
    Header { name: "sampling/fixed_point.cuh", text: fixed_point::CUDA },
    Header { name: "sampling/coin.cuh", text: crate::sampling::COIN },
];
