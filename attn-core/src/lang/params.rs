//! Parameters of a variant: set by name or by field, checked once, passed to kernels as arguments.

use std::fmt;

use super::{FieldDesc, Tensor1, Tensor2};

/// What `#[derive(VariantParams)]` implements: the fields of a variant by name.
///
/// Field attributes: `#[default(expr)]` for a scalar (an expression) or a tensor (a closure
/// `|p: &Self, dims: &Dims| -> Vec<T>` called when the variant is bound and the tensor was not given);
/// `#[shape(qo_heads, 2 * max_distance + 1)]` for a tensor, over the words of [`Dims`] and integer fields;
/// `#[require(cap > 0.0)]`, a condition over the fields.
pub trait VariantParams: Sized {
    /// The fields in order.
    const FIELDS: &'static [FieldDesc];
    /// Makes the variant from values by name. Unknown names, wrong types and missing values are errors;
    /// tensors with a default may be missing.
    fn from_values(values: &ParamValues) -> Result<Self, ParamError>;
    /// The values by name (an unset tensor is left out).
    fn to_values(&self) -> ParamValues;
    /// Checks every `#[require]`, fills unset tensors from their defaults, and checks shapes as far as `dims` knows them.
    fn bind(&mut self, dims: &Dims) -> Result<(), BindError>;
    /// Visits the fields in order, as kernel arguments.
    fn visit_args(&self, visitor: &mut dyn ArgVisitor);
}

/// The sizes that shapes are written in. What is not known yet is `None`, and shapes over it are checked later
/// (`batch`, `qo_tokens`, `kv_tokens` are known when a batch is planned).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Dims {
    pub qo_heads: Option<i64>,
    pub kv_heads: Option<i64>,
    pub head_dim: Option<i64>,
    pub batch: Option<i64>,
    pub qo_tokens: Option<i64>,
    pub kv_tokens: Option<i64>,
}

/// Receives a variant's fields as kernel arguments.
pub trait ArgVisitor {
    /// A scalar, as its 4 bytes (bool: 0 or 1 as an `i32`).
    fn scalar(&mut self, bits: u32);
    /// A captured tensor: its elements as 4-byte words (bool: bytes widened to `i32`) and its extents.
    fn tensor(&mut self, words: &[u32], shape: &[i64]);
}

/// A parameter value by name, as text, JSON or TOML give it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A captured tensor of rank 1, or rows of one of rank 2.
    List(Vec<ParamValue>),
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Bool(x) => write!(f, "{x}"),
            ParamValue::Int(x) => write!(f, "{x}"),
            ParamValue::Float(x) => write!(f, "{x}"),
            ParamValue::List(xs) => {
                f.write_str("[")?;
                for (i, x) in xs.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{x}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Parameter values by name, in the order given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParamValues(pub Vec<(String, ParamValue)>);

impl ParamValues {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ParamValue> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
}

/// What can be wrong with parameters given by name.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamError {
    /// No parameter has this name.
    #[error("no parameter `{name}`{}; there are: {}", did_you_mean(.nearest.as_deref()), list(.known))]
    Unknown {
        /// What was asked.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
        /// What there is.
        known: Vec<String>,
    },
    /// A parameter without default was not given.
    #[error("parameter `{name}` ({ty}) has no default and was not given")]
    Missing {
        /// The parameter.
        name: String,
        /// Its type.
        ty: String,
    },
    /// A value of the wrong type.
    #[error("parameter `{name}` is {ty}; got `{got}`")]
    Type {
        /// The parameter.
        name: String,
        /// Its type.
        ty: String,
        /// What was given.
        got: String,
    },
    /// A name given twice.
    #[error("parameter `{name}` is given twice")]
    Twice {
        /// The parameter.
        name: String,
    },
}

/// What can be wrong when a variant meets the sizes that it will run with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A `#[require]` does not hold.
    #[error("parameter `{name}` = {value} is not allowed: `{require}` must hold")]
    Require {
        /// The parameter.
        name: String,
        /// Its value.
        value: String,
        /// The condition as written.
        require: String,
    },
    /// A captured tensor has other extents than its `#[shape]`.
    #[error("tensor parameter `{name}` has shape {got:?}; `#[shape({shape})]` is {want:?} here")]
    Shape {
        /// The parameter.
        name: String,
        /// The shape as written.
        shape: String,
        /// The shape wanted.
        want: Vec<i64>,
        /// The shape found.
        got: Vec<i64>,
    },
    /// A captured tensor without default was not set.
    #[error("tensor parameter `{name}` is not set and has no default")]
    Unset {
        /// The parameter.
        name: String,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|n| format!(" (did you mean `{n}`?)")).unwrap_or_default()
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A type that a field of a variant may have. Sealed: f32, i32, u32, bool, and [`Tensor1`], [`Tensor2`] of them.
#[diagnostic::on_unimplemented(
    message = "a variant's parameter cannot be a `{Self}`",
    label = "use f32, i32, u32, bool, Tensor1<T> or Tensor2<T>"
)]
pub trait ParamField: sealed::Sealed + Clone + Send + Sync + 'static {
    /// How descriptors name the type.
    const TYPE: super::FieldType;
    /// Reads a value given by name.
    fn from_value(name: &str, value: &ParamValue) -> Result<Self, ParamError>;
    /// The value, unless it is an unset tensor.
    fn to_value(&self) -> Option<ParamValue>;
    /// Passes the field on as a kernel argument.
    fn visit(&self, visitor: &mut dyn ArgVisitor);
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i32 {}
    impl Sealed for u32 {}
    impl Sealed for bool {}
    impl<T> Sealed for super::Tensor1<T> {}
    impl<T> Sealed for super::Tensor2<T> {}
}
