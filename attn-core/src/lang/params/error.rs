//! Errors of parameters: of setting one (`ParamError`), of binding them to dimensions (`BindError`), and of a broken
//! `#[require]` (`RequireError`), which either may be.

use crate::excerpt::{excerpt, list};
use crate::lang::compose_error::ComposeError;

/// Errors of parameters that are given by name.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum ParamError {
    /// No parameter has this name.
    #[error("no parameter `{}`{}; there are: {}", excerpt(.name), did_you_mean(.nearest.as_deref()), list(.known))]
    Unknown { name: String, nearest: Option<String>, known: Vec<String> },
    /// A scalar parameter without default was not given.
    #[error("parameter `{name}` ({ty}) has no default and was not given")]
    Missing { name: String, ty: String },
    /// The value has the wrong type.
    #[error("parameter `{name}` is {ty}; got `{}`", excerpt(.got))]
    Type { name: String, ty: String, got: String },
    /// The type cannot hold the number.
    #[error("parameter `{name}` is {ty}, which cannot hold {}; it holds {range}", excerpt(.got))]
    Range { name: String, ty: String, got: String, range: String },
    /// A `#[require]` does not hold.
    #[error("parameter `{name}` = {} is not allowed: `{require}` must hold", excerpt(.value))]
    Require { name: String, value: String, require: String },
    /// A hook of a variant that was read from Rust text runs on the host.
    #[error(
        "hook `{hook}` of `{variant}` runs on the host too, where Rust text has no compiled hooks; give the variant \
         `#[attention_variant]` in a program"
    )]
    HostHook { variant: String, hook: &'static str },
    /// A parameter is given twice.
    #[error("parameter `{}` is given twice", excerpt(.name))]
    Twice { name: String },
}

/// Errors of binding a variant to the dimensions that it will run with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum BindError {
    /// A `#[require]` does not hold.
    #[error("parameter `{name}` = {} is not allowed: `{require}` must hold", excerpt(.value))]
    Require { name: String, value: String, require: String },
    /// A parameter tensor does not have its `#[shape]`.
    #[error("tensor parameter `{name}` has shape {got:?}; `#[shape({shape})]` is {want:?} here")]
    Shape { name: String, shape: String, want: Vec<i64>, got: Vec<i64> },
    /// A batch has more requests, queries or keys than a parameter tensor has room for.
    #[error(
        "tensor parameter `{name}` has room for {got:?}, and the batch needs {want:?}, which is `#[shape({shape})]`; \
         make the attention with a tensor of at least that shape (of a plan with a capacity: for the largest batch), \
         or plan a smaller batch"
    )]
    Outgrown { name: String, shape: String, want: Vec<i64>, got: Vec<i64> },
    /// A `#[default]` does not give as many values as the `#[shape]` of its tensor has.
    #[error("the default of tensor parameter `{name}` gives {got} values; `#[shape({shape})]` is {want:?} here")]
    DefaultLength { name: String, shape: String, want: Vec<i64>, got: usize },
    /// A parameter tensor is empty, so no index can be clamped into it.
    #[error("tensor parameter `{name}` is empty; `#[shape({shape})]` is its shape")]
    Empty { name: String, shape: String },
    /// A `#[shape]` overflows or divides by zero with these dimensions.
    #[error("the shape of tensor parameter `{name}`, `{shape}`, overflows or divides by zero here")]
    ShapeArithmetic { name: String, shape: String },
    /// The parts of a composition do not compose.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// An error in one part of a composition.
    #[error("in `{variant}`: {source}")]
    Part { variant: String, source: Box<BindError> },
    /// A `#[monotone]` tensor decreases along the last axis, or has a value that cannot be compared.
    #[error("tensor parameter `{name}` is #[monotone], but {value} at {at:?} follows {before}")]
    NotMonotone { name: String, at: Vec<i64>, value: String, before: String },
    /// An extent of a tensor exceeds `i32::MAX`, the greatest index.
    #[error("tensor parameter `{name}` has shape {got:?}; an extent is at most {}", i32::MAX)]
    TooLarge { name: String, got: Vec<i64> },
    /// A KV format whose rows of this dimension no cache can hold.
    #[error("rows of head_dim = {dim} cannot be stored so: {why}")]
    KvRow { dim: i32, why: String },
    /// A parameter tensor without a default was not given.
    #[error("tensor parameter `{name}` is not set and has no default")]
    Unset { name: String },
}

/// A `#[require]` does not hold. It becomes a [`ParamError`] by name, or a [`BindError`] when binding.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("parameter `{name}` = {} is not allowed: `{require}` must hold", excerpt(.value))]
pub struct RequireError {
    /// The parameter.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The condition as written.
    pub require: String,
}

impl From<RequireError> for ParamError {
    fn from(RequireError { name, value, require }: RequireError) -> Self {
        ParamError::Require { name, value, require }
    }
}

impl From<RequireError> for BindError {
    fn from(RequireError { name, value, require }: RequireError) -> Self {
        BindError::Require { name, value, require }
    }
}

impl BindError {
    /// The error without the name of the part.
    #[must_use]
    pub fn root(&self) -> &BindError {
        match self {
            BindError::Part { source, .. } => source.root(),
            _ => self,
        }
    }
}

pub(crate) fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|n| format!(" (did you mean `{n}`?)")).unwrap_or_default()
}
