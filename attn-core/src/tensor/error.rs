//! Errors of tensors: each names the tensor, what it has, and what the batch needs.

use crate::dtype::Dtype;

/// Errors of tensors. Each names the tensor, a value, and what is allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum TensorError {
    /// The rank is not allowed.
    #[error("{tensor} has rank {rank}; it must be {want}")]
    Rank { tensor: &'static str, rank: usize, want: &'static str },
    /// The strides have another rank than the shape.
    #[error("{strides} strides are given for a tensor of rank {rank}")]
    StrideRank { strides: usize, rank: usize },
    /// A tensor is missing.
    #[error("there is no {tensor}: {why}")]
    Absent { tensor: &'static str, why: &'static str },
    /// The stride is not allowed.
    #[error("{tensor} has stride {stride} in dimension {dim}; it must be {want}")]
    Stride { tensor: &'static str, dim: usize, stride: i64, want: &'static str },
    /// The elements exceed the memory.
    #[error("the tensor reaches over {extent} elements, its memory holds {len}")]
    Extent { extent: u64, len: u64 },
    /// The strides reach device memory that nobody promised.
    #[error(
        "strides {strides:?} of a tensor of shape {shape:?} reach memory between its elements, which have strides \
        {own:?}; only these were promised. Make the tensor with `TensorRef::device` and the new strides"
    )]
    Gaps { shape: Vec<usize>, strides: Vec<i64>, own: Vec<i64> },
    /// An address in host memory that holds no elements of the type.
    #[error("the elements are at address {address:#x}; those of {dtype} are at multiples of {size}, and not at 0")]
    Address { address: u64, dtype: Dtype, size: usize },
    /// The extents exceed 63 bits.
    #[error("a tensor of shape {shape:?} is too large to address")]
    TooLarge { shape: Vec<usize> },
    /// The order of dimensions is not a permutation.
    #[error("{order:?} is not an order of the {rank} dimensions: name each of 0 to {} once", .rank.saturating_sub(1))]
    Order { order: Vec<usize>, rank: usize },
    /// The selected part does not exist.
    #[error("index {index} in dimension {dim} is not in a tensor of shape {shape:?}")]
    Select { dim: usize, index: usize, shape: Vec<usize> },
    /// The narrowed part does not exist.
    #[error("tensor of shape {shape:?} has no indices {range:?} in dimension {dim}")]
    Narrow { dim: usize, range: std::ops::Range<usize>, shape: Vec<usize> },
    /// The element type differs from the agreed one.
    #[error("{tensor} is {got}; this attention has it as {want}")]
    Dtype { tensor: &'static str, got: Dtype, want: Dtype },
    /// A scale is not positive and finite.
    #[error("{tensor} is or holds {value}; a scale must be positive and finite")]
    Scale {
        /// `q_scale`, `k_scale`, `v_scale`, `o_scale`, or in an array `q_scales`, ..
        tensor: &'static str,
        value: f32,
    },
    /// An extent does not fit the batch or the heads.
    #[error(
        "{tensor} has {got} {dim}; this run needs {at_least}{want}",
        at_least = if *.exact { "" } else { "at least " }
    )]
    Shape {
        tensor: &'static str,
        dim: &'static str,
        got: usize,
        want: usize,
        /// Whether the extent must be equal; otherwise it may be larger.
        exact: bool,
    },
    /// Other tokens than those of the batch, of a plan without a capacity.
    #[error(
        "{tensor} has {got} tokens; this run needs {want}: those of the batch, or at least {want} for a plan with a \
        capacity"
    )]
    Tokens { tensor: &'static str, got: usize, want: usize },
    /// Elements of an output share memory.
    #[error("{tensor} has shape {shape:?} and strides {strides:?}: elements overlap")]
    Overlap { tensor: &'static str, shape: Vec<usize>, strides: Vec<i64> },
    /// A scale of outputs that are not quantised.
    #[error(
        "o is {o} and has a scale; scales are for outputs of e4m3 (`Dtypes::with_output(Dtype::E4m3)`): plan those, \
        or leave the scale out"
    )]
    OutputScale { o: Dtype },
    /// A scale of queries that are not stored as e4m3.
    #[error(
        "q is {q} and has a scale; scales are for queries of e4m3 (`Dtypes::with_queries(Dtype::E4m3)`): plan those, \
        or multiply the scale of logits"
    )]
    QueryScale { q: Dtype },
    /// Partial states of 8 bits.
    #[error(
        "a partial o is e4m3, and states of 8 bits are not merged; plan outputs of f16, bf16 or f32, and quantise what \
        the merge writes"
    )]
    PartialOutput,
    /// An output has elements in the memory of another tensor of the call.
    #[error("{tensor} shares memory with {other}; give it memory of its own")]
    Shared { tensor: &'static str, other: &'static str },
    /// The backend cannot access the memory of the tensor.
    #[error("{tensor} is in {got} memory; this backend runs on {want} memory")]
    Memory { tensor: &'static str, got: &'static str, want: &'static str },
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
    TooManyRows { qo_len: usize, group: u32 },
}
