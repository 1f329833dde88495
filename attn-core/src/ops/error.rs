//! What can be wrong with an op.

use crate::{dtype::Dtype, lang::BindError, tensor::TensorError};

/// What can be wrong with what an op is given. Nothing is written, and nothing launched, when there is an error.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// A tensor that does not fit.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// An element type that the op has no meaning for.
    #[error("{tensor} is {got}; it must be {want}")]
    Dtype {
        /// The tensor.
        tensor: &'static str,
        /// Its type.
        got: Dtype,
        /// What is allowed.
        want: String,
    },
    /// An array of a length that does not go with the rest.
    #[error("`{array}` has {len} entries; {at_least}{want} are needed", at_least = if *.exact { "" } else { "at least " })]
    Len {
        /// The array.
        array: &'static str,
        /// Its length.
        len: usize,
        /// The length needed.
        want: usize,
        /// Whether it must be just that, or may be more.
        exact: bool,
    },
    /// An entry that is outside of what it is an index of.
    #[error("`{array}[{index}]` is {value}; it must be {least} to {most}")]
    Entry {
        /// The array.
        array: &'static str,
        /// Where in it.
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
        /// How many pages that has.
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
    /// Values where there are none on the other side.
    #[error("{there} has values and {missing} has none; give both or neither (a latent cache has one tensor)")]
    Values {
        /// Which side has them.
        there: &'static str,
        /// Which has not.
        missing: &'static str,
    },
    /// Rows that are to be transformed without their positions.
    #[error("`{variant}` transforms keys or values by their positions; give `positions` beside `slots`")]
    Positions {
        /// The variant.
        variant: String,
    },
    /// A transform that reads what an append does not know.
    #[error(
        "`{variant}` reads `{word}` of a key, which is not known where the key is appended; append without the transform, and leave the cache raw"
    )]
    Word {
        /// The variant.
        variant: String,
        /// The index word.
        word: &'static str,
    },
    /// A union, of which each arm might transform differently.
    #[error("`{variant}` is a union; give the part that transforms keys and values by itself")]
    Union {
        /// The variant.
        variant: String,
    },
    /// A parameter that does not fit.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Page sizes, or other sizes of two pools, that differ.
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
