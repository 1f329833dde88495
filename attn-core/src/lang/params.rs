//! Parameters of a variant: set by name or by field, checked when bound, passed to kernels as arguments.

mod args;
mod dims;
mod erased;
mod error;
mod value;

pub use super::field::ParamField;
pub use args::{ArgVisitor, TensorArg};
pub use dims::{Dims, ShapeProblem};
pub use erased::ErasedParams;
pub(crate) use error::did_you_mean;
pub use error::{BindError, ParamError, RequireError};
pub use value::{ParamValue, ParamValues};

use super::FieldDesc;

/// The fields of a variant by name. `#[derive(VariantParams)]` implements it.
///
/// Field attributes:
/// - `#[default(expr)]`: for a scalar an expression; for a tensor a closure or function `|p: &Self, dims: &Dims| ->
///   Vec<T>`, called when the variant is bound without the tensor. `T` is what an index gives: f32 for floats of 16 and
///   8 bits, bool for bits.
/// - `#[monotone]`: values of the tensor never decrease along the last axis. Binding checks it, and tile classes get
///   tighter.
/// - `#[mutable]`: values change while plans live on, in place (`Attention::set_tensor`). Tile classes hold for any
///   values, so they prove less.
/// - `#[shape(qo_heads, 2 * max_distance + 1)]`: the shape of a tensor over the dimensions of [`Dims`] and integer
///   fields, with integer arithmetic and `if`. Along an axis that grows with `batch`, `qo_tokens` or `kv_tokens` (sums
///   and products of these, less or divided by what is fixed) the tensor may be larger than the batch needs.
/// - `#[require(cap > 0.0)]`: a condition over fields and dimensions. Integers keep their types, tensors are
///   references, dimensions are `i32`. A condition is checked once its dimensions are known.
///
/// When every field has a default, the derive also implements `Default`: `Rope { theta: 1e6, ..Default::default() }`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no parameters: its struct is not marked with `#[derive(VariantParams)]`",
    label = "put `#[derive(Clone, VariantParams)]` on this struct, also where it has no fields"
)]
pub trait VariantParams: Sized {
    /// The fields in order.
    const FIELDS: &'static [FieldDesc];
    /// Doc comment of the struct.
    const DOC: &'static str;
    /// Makes the variant from values by name. Unknown names, wrong types, missing scalars and broken conditions are
    /// errors. A tensor may be missing: binding fills or refuses it.
    fn from_values(values: &ParamValues) -> Result<Self, ParamError>;
    /// Replaces the fields that are named; the others keep their values, output tensors included. After an error some
    /// fields may have been replaced.
    fn set_values(&mut self, values: &ParamValues) -> Result<(), ParamError>;
    /// The values by name, without tensors that are unset or filled from their defaults, and without output tensors.
    fn to_values(&self) -> ParamValues;
    /// Checks every `#[require]` whose dimensions and tensors are known.
    fn require(&self, dims: &Dims) -> Result<(), RequireError>;
    /// Checks every `#[require]`, fills unset tensors from their defaults, and checks shapes as far as `dims` knows
    /// them.
    fn bind(&mut self, dims: &Dims) -> Result<(), BindError>;
    /// The shape of field number `field` of [`Self::FIELDS`]; empty for a scalar.
    fn shape(&self, field: usize, dims: &Dims) -> Result<Vec<i64>, ShapeProblem>;
    /// Visits the fields in order, as kernel arguments.
    fn visit_args(&self, visitor: &mut dyn ArgVisitor);
}
