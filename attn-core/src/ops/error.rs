//! Errors of ops.

use crate::{dtype::Dtype, expr::ContentError, lang::BindError, tensor::TensorError};

/// Why an op refuses its arguments. Nothing is written or launched if there is an error.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// A tensor of the wrong shape, strides or memory.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// An element type that the op does not support.
    #[error("{tensor} is {got}; it must be {want}")]
    Dtype {
        /// The tensor.
        tensor: &'static str,
        /// Its type.
        got: Dtype,
        /// What is allowed.
        want: String,
    },
    /// Bytes without a format.
    #[error(
        "{tensor} is u8, rows of a KV format; give the op a transform of a variant with formats \
         (`Variant::with_kv_formats`), or rows of u8 that are stored so already"
    )]
    NoFormat {
        /// The tensor.
        tensor: &'static str,
    },
    /// An array of a wrong length.
    #[error(
        "`{array}` has {len} entries; {at_least}{want} are needed",
        at_least = if *.exact { "" } else { "at least " }
    )]
    Len {
        /// The array.
        array: &'static str,
        /// Its length.
        len: usize,
        /// The length needed.
        want: usize,
        /// Whether the length must be exact, or may be greater.
        exact: bool,
    },
    /// An entry out of bounds.
    #[error("`{array}[{index}]` is {value}; it must be {least} to {most}")]
    Entry {
        /// The array.
        array: &'static str,
        /// Index of the entry.
        index: usize,
        /// The entry.
        value: i64,
        /// The least that is allowed.
        least: i64,
        /// The most.
        most: i64,
    },
    /// A position past the pages of its request.
    #[error("`positions[{index}]` is {position}; request {request} has {pages} pages of {page_size}")]
    PastPages {
        /// Which of the positions.
        index: usize,
        /// The position.
        position: i64,
        /// Its request.
        request: usize,
        /// Number of pages of the request.
        pages: usize,
        /// Slots of a page.
        page_size: usize,
    },
    /// An array in memory that the backend cannot reach.
    #[error("`{array}` is in {got} memory; this backend reads {want} memory")]
    Memory {
        /// The array.
        array: &'static str,
        /// Where it is.
        got: &'static str,
        /// Where it must be.
        want: &'static str,
    },
    /// Values on one side only.
    #[error("{there} has values and {missing} has none; give both or neither (a latent cache has one tensor)")]
    Values {
        /// The side with values.
        there: &'static str,
        /// The side without values.
        missing: &'static str,
    },
    /// A number out of its range.
    #[error("`{name}` is {got}; it must be {want}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its value.
        got: f32,
        /// What is allowed.
        want: &'static str,
    },
    /// A parameter of logits, where probabilities are given.
    #[error("`{parameter}` is for logits, and probabilities are given; sample from logits, or leave it out")]
    OfLogits {
        /// The parameter.
        parameter: &'static str,
    },
    /// An argument that another one needs.
    #[error("`{given}` needs `{missing}`; give both, or neither")]
    Missing {
        /// What is given.
        given: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// A transform of rows without positions.
    #[error("`{variant}` transforms keys or values by their positions; give `positions` beside `slots`")]
    Positions {
        /// The variant.
        variant: String,
    },
    /// A transform that reads a coordinate that an append does not know.
    #[error(
        "`{variant}` reads `{word}` of a key, which is not known where the key is appended (`kv_pos`, `kv_head` and \
         `kv_token`, the row among the new keys, are); append without the transform, and leave the cache raw"
    )]
    Word {
        /// The variant.
        variant: String,
        /// The coordinate.
        word: &'static str,
    },
    /// A union, whose branches may transform differently.
    #[error("`{variant}` is a union; give the part that transforms keys and values by itself")]
    Union {
        /// The variant.
        variant: String,
    },
    /// A parameter that does not fit.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A parameter tensor whose content is not replaced so.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// Extents of two tensors that differ.
    #[error("{tensor} has {got} {dim}; {other} has {want}")]
    Differs {
        /// One tensor.
        tensor: &'static str,
        /// What the dimension counts.
        dim: &'static str,
        /// Its extent.
        got: usize,
        /// The other tensor.
        other: &'static str,
        /// Its extent.
        want: usize,
    },
}
