//! Errors of ops, the same for the CPU and CUDA: what does not fit is refused before anything is written.

use crate::{dtype::Dtype, expr::ContentError, lang::BindError, tensor::TensorError};

/// Why an op refuses its arguments. Nothing is written or launched if there is an error.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum OpError {
    /// A tensor of the wrong shape, strides or memory.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// An element type that the op does not support.
    #[error("{tensor} is {got}; it must be {want}")]
    Dtype { tensor: &'static str, got: Dtype, want: String },
    /// Bytes without a format.
    #[error(
        "{tensor} is u8, rows of a KV format; give the op a transform of a variant with formats \
         (`Variant::with_kv_formats`), or rows of u8 that are stored so already"
    )]
    NoFormat { tensor: &'static str },
    /// An array of a wrong length.
    #[error(
        "`{array}` has {len} entries; {at_least}{want} are needed",
        at_least = if *.exact { "" } else { "at least " }
    )]
    Len {
        array: &'static str,
        len: usize,
        want: usize,
        /// Whether the length must be exact, or may be greater.
        exact: bool,
    },
    /// An entry out of bounds.
    #[error("`{array}[{index}]` is {value}; it must be {least} to {most}")]
    Entry { array: &'static str, index: usize, value: i64, least: i64, most: i64 },
    /// A position past the pages of its request.
    #[error("`positions[{index}]` is {position}; request {request} has {pages} pages of {page_size}")]
    PastPages { index: usize, position: i64, request: usize, pages: usize, page_size: usize },
    /// An array in memory that the backend cannot reach.
    #[error("`{array}` is in {got} memory; this backend reads {want} memory")]
    Memory { array: &'static str, got: &'static str, want: &'static str },
    /// Values on one side only.
    #[error("{there} has values and {missing} has none; give both or neither (a latent cache has one tensor)")]
    Values { there: &'static str, missing: &'static str },
    /// A number out of its range.
    #[error("`{name}` is {got}; it must be {want}")]
    Parameter { name: &'static str, got: f32, want: &'static str },
    /// A parameter of logits, where probabilities are given.
    #[error("`{parameter}` is for logits, and probabilities are given; sample from logits, or leave it out")]
    OfLogits { parameter: &'static str },
    /// An argument that another one needs.
    #[error("`{given}` needs `{missing}`; give both, or neither")]
    Missing { given: &'static str, missing: &'static str },
    /// A transform of rows without positions.
    #[error("`{variant}` transforms keys or values by their positions; give `positions` beside `slots`")]
    Positions { variant: String },
    /// A transform that reads a coordinate that an append does not know.
    #[error(
        "`{variant}` reads `{word}` of a key, which is not known where the key is appended (`kv_pos`, `kv_head` and \
         `kv_token`, the row among the new keys, are); append without the transform, and leave the cache raw"
    )]
    Word { variant: String, word: &'static str },
    /// A transform of queries that reads a coordinate that an append does not know.
    #[error(
        "`{variant}` reads `{word}` of a query, which is not known where its key is appended (`qo_pos`, `qo_head`, \
         `kv_head` and `qo_token`, the row among the new keys, are); append without queries, which attention transforms"
    )]
    QueryWord { variant: String, word: &'static str },
    /// A union, whose branches may transform differently.
    #[error("`{variant}` is a union; give the part that transforms keys and values by itself")]
    Union { variant: String },
    /// A parameter that does not fit.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A parameter tensor whose content is not replaced so.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// Extents of two tensors that differ.
    #[error("{tensor} has {got} {dim}; {other} has {want}")]
    Differs { tensor: &'static str, dim: &'static str, got: usize, other: &'static str, want: usize },
}
