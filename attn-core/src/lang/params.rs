//! Parameters of a variant: set by name or by field, checked once, passed to kernels as arguments.

use std::fmt;

use super::FieldDesc;
use super::compose::ComposeError;
use super::desc::Elem;
use super::table::OutBuffer;
use super::table::ranges::TableRanges;

pub use super::field::ParamField;

/// What `#[derive(VariantParams)]` implements: the fields of a variant by name.
///
/// Field attributes: `#[default(expr)]` for a scalar (an expression) or a tensor (a closure or function
/// `|p: &Self, dims: &Dims| -> Vec<T>` called when the variant is bound and the tensor was not given, `T` what an index gives:
/// f32 for floats of 16 and 8 bits, bool for bits); `#[monotone]` for a tensor none of whose values is less than the one before it
/// along the last axis, which a binding checks, and which lets masks over it be classed tightly;
/// `#[shape(qo_heads, 2 * max_distance + 1)]` for a tensor, over the words of [`Dims`] and integer fields, with
/// integer arithmetic and `if`; `#[require(cap > 0.0)]`, a condition over the fields by name (integers stay what they
/// are, tensors are references, and the words of [`Dims`] are `i32`: a condition waits until its words are known).
///
/// When every field has a default, the derive also writes `Default`, so that `Rope { theta: 1e6, ..Default::default() }`
/// means what it says.
pub trait VariantParams: Sized {
    /// The fields in order.
    const FIELDS: &'static [FieldDesc];
    /// Doc comment of the struct.
    const DOC: &'static str;
    /// Makes the variant from values by name. Unknown names, wrong types, missing scalars, and conditions that do not
    /// hold are errors. A tensor may be missing: no kernel depends on its values, and a binding fills or refuses it.
    fn from_values(values: &ParamValues) -> Result<Self, ParamError>;
    /// Replaces the fields that are named, as [`Self::from_values`] reads them; the others stay, tensors that hooks store to among
    /// them. After an error some may have been replaced.
    fn set_values(&mut self, values: &ParamValues) -> Result<(), ParamError>;
    /// The values by name (an unset tensor is left out, and so is one that was filled from its default, and one that hooks store to).
    fn to_values(&self) -> ParamValues;
    /// Checks every `#[require]` whose words are known; those over an unset tensor wait.
    fn require(&self, dims: &Dims) -> Result<(), RequireError>;
    /// Checks every `#[require]`, fills unset tensors from their defaults, and checks shapes as far as `dims` knows them.
    fn bind(&mut self, dims: &Dims) -> Result<(), BindError>;
    /// The extents of field number `field` of [`Self::FIELDS`]; none for a scalar.
    fn shape(&self, field: usize, dims: &Dims) -> Result<Vec<i64>, ShapeProblem>;
    /// Visits the fields in order, as kernel arguments.
    fn visit_args(&self, visitor: &mut dyn ArgVisitor);
}

/// Why a shape has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeProblem {
    /// A word is not known yet.
    Unknown,
    /// It overflows or divides by zero.
    Arithmetic,
}

/// The sizes that shapes are written in. What is not known yet is `None`, and shapes over it are checked later
/// (`batch`, `qo_tokens`, `kv_tokens` are known when a batch is planned).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Dims {
    pub qo_heads: Option<i64>,
    pub kv_heads: Option<i64>,
    pub head_dim: Option<i64>,
    pub value_dim: Option<i64>,
    pub batch: Option<i64>,
    pub qo_tokens: Option<i64>,
    pub kv_tokens: Option<i64>,
}

/// Receives a variant's fields as kernel arguments.
pub trait ArgVisitor {
    /// A scalar, as its 4 bytes (bool: 0 or 1 as an `i32`).
    fn scalar(&mut self, bits: u32);
    /// A captured tensor.
    fn tensor(&mut self, tensor: TensorArg<'_>);
    /// A tensor that hooks store to, and its extents; without a buffer where it is unset.
    fn out(&mut self, buffer: Option<&OutBuffer>, shape: &[i64]);
}

/// A captured tensor as a kernel argument.
#[derive(Clone, Copy, Debug)]
pub struct TensorArg<'a> {
    /// The elements, row-major, each in its own width (bool: a byte, 0 or 1).
    pub bytes: &'a [u8],
    /// Their type.
    pub elem: Elem,
    /// The extents, each below 2^31.
    pub shape: &'a [i64],
    /// What masks over tiles ask of it; worked out when it is first asked for.
    pub ranges: &'a dyn TableRanges,
}

/// A parameter value by name, as text, JSON or TOML give it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A captured tensor of rank 1, or the rows of a deeper one.
    List(Vec<ParamValue>),
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Bool(x) => write!(f, "{x}"),
            ParamValue::Int(x) => write!(f, "{x}"),
            // a text that reads back as the same number
            ParamValue::Float(x) if x.is_nan() => f.write_str("nan"),
            ParamValue::Float(x) if *x == 0.0 && x.is_sign_negative() => f.write_str("-0.0"),
            ParamValue::Float(x) if x.is_finite() && *x != 0.0 && !(1e-5..1e16).contains(&x.abs()) => {
                write!(f, "{x:e}")
            }
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
    /// Sets a name, in place when it is there.
    pub fn set(&mut self, name: &str, value: ParamValue) {
        match self.0.iter_mut().find(|(n, _)| n == name) {
            Some(slot) => slot.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
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
    /// A scalar parameter without default was not given.
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
    /// A number that the type cannot hold.
    #[error("parameter `{name}` is {ty}, which cannot hold {got}; it holds {range}")]
    Range {
        /// The parameter.
        name: String,
        /// Its type.
        ty: String,
        /// What was given.
        got: String,
        /// What the type holds.
        range: String,
    },
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
    /// A `#[default]` that gives another number of values than its tensor's `#[shape]` has.
    #[error("the default of tensor parameter `{name}` gives {got} values; `#[shape({shape})]` is {want:?} here")]
    DefaultLength {
        /// The parameter.
        name: String,
        /// The shape as written.
        shape: String,
        /// The shape wanted.
        want: Vec<i64>,
        /// How many values there are.
        got: usize,
    },
    /// A captured tensor without elements, which no index can be clamped into.
    #[error("tensor parameter `{name}` is empty; `#[shape({shape})]` is its shape")]
    Empty {
        /// The parameter.
        name: String,
        /// The shape as written.
        shape: String,
    },
    /// A `#[shape]` that overflows or divides by zero with these values.
    #[error("the shape of tensor parameter `{name}`, `{shape}`, overflows or divides by zero here")]
    ShapeArithmetic {
        /// The parameter.
        name: String,
        /// The shape as written.
        shape: String,
    },
    /// Parts that do not go together.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// What is wrong, and in which part of a composition.
    #[error("in `{variant}`: {source}")]
    Part {
        /// Name of the part.
        variant: String,
        /// What is wrong.
        source: Box<BindError>,
    },
    /// A `#[monotone]` tensor with a value that is less than the one before it along the last axis, or not comparable.
    #[error("tensor parameter `{name}` is #[monotone], but {value} at {at:?} follows {before}")]
    NotMonotone {
        /// The parameter.
        name: String,
        /// The first such place.
        at: Vec<i64>,
        /// What is there.
        value: String,
        /// What is before it.
        before: String,
    },
    /// A tensor with an extent that no index reaches the end of.
    #[error("tensor parameter `{name}` has shape {got:?}; an extent is at most {}", i32::MAX)]
    TooLarge {
        /// The parameter.
        name: String,
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

/// A `#[require]` that does not hold: one cause of a [`ParamError`] by name and of a [`BindError`] by field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("parameter `{name}` = {value} is not allowed: `{require}` must hold")]
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
    /// What is wrong, without the name of the part.
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

pub(crate) fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
