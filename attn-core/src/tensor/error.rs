//! Errors of tensors.

use crate::dtype::Dtype;

/// Errors of tensors. Each names the tensor, a value, and what is allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The rank is not allowed.
    #[error("{tensor} has rank {rank}; it must be {want}")]
    Rank {
        /// The tensor.
        tensor: &'static str,
        /// Its rank.
        rank: usize,
        /// What is allowed.
        want: &'static str,
    },
    /// The strides have another rank than the shape.
    #[error("{strides} strides are given for a tensor of rank {rank}")]
    StrideRank {
        /// Number of strides.
        strides: usize,
        /// Rank of the shape.
        rank: usize,
    },
    /// A tensor is missing.
    #[error("there is no {tensor}: {why}")]
    Absent {
        /// The tensor.
        tensor: &'static str,
        /// The feature that needs it.
        why: &'static str,
    },
    /// The stride is not allowed.
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
    /// The elements exceed the memory.
    #[error("the tensor reaches over {extent} elements, its memory holds {len}")]
    Extent {
        /// One past the largest offset.
        extent: u64,
        /// Elements in memory.
        len: u64,
    },
    /// The strides reach device memory that nobody promised.
    #[error(
        "strides {strides:?} of a tensor of shape {shape:?} reach memory between its elements, which have strides \
        {own:?}; only these were promised. Make the tensor with `TensorRef::device` and the new strides"
    )]
    Gaps {
        /// The shape.
        shape: Vec<usize>,
        /// The strides asked for.
        strides: Vec<i64>,
        /// The strides of the tensor.
        own: Vec<i64>,
    },
    /// An address in host memory that holds no elements of the type.
    #[error("the elements are at address {address:#x}; those of {dtype} are at multiples of {size}, and not at 0")]
    Address {
        /// The address.
        address: u64,
        /// The type of the elements.
        dtype: Dtype,
        /// The size of one.
        size: usize,
    },
    /// The extents exceed 63 bits.
    #[error("a tensor of shape {shape:?} is too large to address")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// The order of dimensions is not a permutation.
    #[error("{order:?} is not an order of the {rank} dimensions: name each of 0 to {} once", .rank.saturating_sub(1))]
    Order {
        /// What was given.
        order: Vec<usize>,
        /// Rank of the tensor.
        rank: usize,
    },
    /// The selected part does not exist.
    #[error("index {index} in dimension {dim} is not in a tensor of shape {shape:?}")]
    Select {
        /// The dimension.
        dim: usize,
        /// The index.
        index: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The narrowed part does not exist.
    #[error("tensor of shape {shape:?} has no indices {range:?} in dimension {dim}")]
    Narrow {
        /// The dimension.
        dim: usize,
        /// The indices.
        range: std::ops::Range<usize>,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The element type differs from the agreed one.
    #[error("{tensor} is {got}; this attention has it as {want}")]
    Dtype {
        /// The tensor.
        tensor: &'static str,
        /// Its type.
        got: Dtype,
        /// The type agreed.
        want: Dtype,
    },
    /// A scale is not positive and finite.
    #[error("{tensor} is or holds {value}; a scale must be positive and finite")]
    Scale {
        /// `k_scale`, `v_scale`, or of each head `k_scales`, `v_scales`.
        tensor: &'static str,
        /// Its value.
        value: f32,
    },
    /// An extent does not fit the batch or the heads.
    #[error(
        "{tensor} has {got} {dim}; this run needs {at_least}{want}",
        at_least = if *.exact { "" } else { "at least " }
    )]
    Shape {
        /// The tensor.
        tensor: &'static str,
        /// What the dimension counts.
        dim: &'static str,
        /// Its extent.
        got: usize,
        /// The extent needed.
        want: usize,
        /// Whether the extent must be equal; otherwise it may be larger.
        exact: bool,
    },
    /// Other tokens than those of the batch, of a plan without a capacity.
    #[error(
        "{tensor} has {got} tokens; this run needs {want}: those of the batch, or at least {want} for a plan with a \
        capacity"
    )]
    Tokens {
        /// The tensor.
        tensor: &'static str,
        /// Its tokens.
        got: usize,
        /// Those of the batch.
        want: usize,
    },
    /// Elements of an output share memory.
    #[error("{tensor} has shape {shape:?} and strides {strides:?}: elements overlap")]
    Overlap {
        /// The tensor.
        tensor: &'static str,
        /// Its shape.
        shape: Vec<usize>,
        /// Its strides.
        strides: Vec<i64>,
    },
    /// An output has elements in the memory of another tensor of the call.
    #[error("{tensor} shares memory with {other}; give it memory of its own")]
    Shared {
        /// The output.
        tensor: &'static str,
        /// The other tensor, which is read or written too.
        other: &'static str,
    },
    /// The backend cannot access the memory of the tensor.
    #[error("{tensor} is in {got} memory; this backend runs on {want} memory")]
    Memory {
        /// The tensor.
        tensor: &'static str,
        /// Where it is.
        got: &'static str,
        /// Where it must be.
        want: &'static str,
    },
    /// Side data that no row has.
    #[error("{tensor} is given, and rows as they are stored here have no side data; leave it out")]
    NoSide {
        /// `k side` or `v side`.
        tensor: &'static str,
    },
    /// The values are in another tensor than the keys that they should share memory with.
    #[error("values are the first elements of the keys, so v must be the tensor k; make both with `Kv::latent`")]
    NotTheKeys,
    /// The head counts are not allowed.
    #[error(transparent)]
    Heads(#[from] crate::spec::HeadsError),
    /// The element types are not allowed.
    #[error(transparent)]
    Dtypes(#[from] crate::dtype::DtypesError),
    /// More rows than a work item can count.
    #[error("{qo_len} queries of one request times {group} query heads per KV head is past {}", i32::MAX)]
    TooManyRows {
        /// Queries of the longest request.
        qo_len: usize,
        /// Query heads per KV head.
        group: u32,
    },
}
