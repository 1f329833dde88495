//! What can be wrong with a tensor.

use crate::dtype::Dtype;

/// What can be wrong with a tensor: each names the tensor, the value, and what is allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// A rank that the tensor cannot have.
    #[error("{tensor} has rank {rank}; it must be {want}")]
    Rank {
        /// The tensor.
        tensor: &'static str,
        /// Its rank.
        rank: usize,
        /// What is allowed.
        want: &'static str,
    },
    /// Strides of another rank than the shape.
    #[error("{strides} strides are given for a tensor of rank {rank}")]
    StrideRank {
        /// Number of strides.
        strides: usize,
        /// Rank of the shape.
        rank: usize,
    },
    /// A tensor that is not there.
    #[error("there is no {tensor}: {why}")]
    Absent {
        /// The tensor.
        tensor: &'static str,
        /// What it is for.
        why: &'static str,
    },
    /// A stride that the tensor cannot have.
    #[error("{tensor} has stride {stride} in dimension {dim}; it must be {want}")]
    Stride {
        /// The tensor.
        tensor: &'static str,
        /// The dimension.
        dim: usize,
        /// Its stride.
        stride: i64,
        /// What is allowed.
        want: &'static str,
    },
    /// A tensor whose elements go past the end of its memory.
    #[error("the tensor reaches over {extent} elements, its memory holds {len}")]
    Extent {
        /// One past the largest offset.
        extent: u64,
        /// Elements there are.
        len: u64,
    },
    /// Extents that 63 bits do not count.
    #[error("a tensor of shape {shape:?} is too large to address")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// An order of dimensions that is not a permutation.
    #[error("{order:?} is not an order of the {rank} dimensions: name each of 0 to {} once", .rank.saturating_sub(1))]
    Order {
        /// What was given.
        order: Vec<usize>,
        /// Rank of the tensor.
        rank: usize,
    },
    /// A part that is not there.
    #[error("index {index} in dimension {dim} is not in a tensor of shape {shape:?}")]
    Select {
        /// The dimension.
        dim: usize,
        /// The index.
        index: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// An element type that was not agreed.
    #[error("{tensor} is {got}; this attention has it as {want}")]
    Dtype {
        /// The tensor.
        tensor: &'static str,
        /// Its type.
        got: Dtype,
        /// The type agreed.
        want: Dtype,
    },
    /// A scale of keys or values that is none.
    #[error("{tensor} is or holds {value}; a scale must be positive and finite")]
    Scale {
        /// `k_scale`, `v_scale`, or of each head `k_scales`, `v_scales`.
        tensor: &'static str,
        /// Its value.
        value: f32,
    },
    /// An extent that does not fit the batch or the heads.
    #[error("{tensor} has {got} {dim}; this run needs {at_least}{want}", at_least = if *.exact { "" } else { "at least " })]
    Shape {
        /// The tensor.
        tensor: &'static str,
        /// What the dimension counts.
        dim: &'static str,
        /// Its extent.
        got: usize,
        /// The extent needed.
        want: usize,
        /// Whether it must be just that, or may be more.
        exact: bool,
    },
    /// An output whose elements share memory.
    #[error("{tensor} has shape {shape:?} and strides {strides:?}: elements overlap")]
    Overlap {
        /// The tensor.
        tensor: &'static str,
        /// Its shape.
        shape: Vec<usize>,
        /// Its strides.
        strides: Vec<i64>,
    },
    /// A tensor in memory that the backend cannot reach.
    #[error("{tensor} is in {got} memory; this backend runs on {want} memory")]
    Memory {
        /// The tensor.
        tensor: &'static str,
        /// Where it is.
        got: &'static str,
        /// Where it must be.
        want: &'static str,
    },
    /// Values that should be of the keys, in a tensor of their own.
    #[error("values are the first elements of the keys, so v must be the tensor k; make both with `Kv::latent`")]
    NotTheKeys,
    /// Head counts that no attention has.
    #[error(transparent)]
    Heads(#[from] crate::spec::HeadsError),
    /// Element types that no attention has.
    #[error(transparent)]
    Dtypes(#[from] crate::dtype::DtypesError),
    /// More rows than work items can count.
    #[error("{qo_len} queries of one request times {group} query heads per KV head is past {}", i32::MAX)]
    TooManyRows {
        /// Queries of the longest request.
        qo_len: usize,
        /// Query heads per KV head.
        group: u32,
    },
}
