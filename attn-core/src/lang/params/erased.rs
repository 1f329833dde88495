//! The object-safe form of [`VariantParams`].

use super::{ArgVisitor, BindError, Dims, ParamError, ParamValues, ShapeProblem, VariantParams};

/// Type-erased parameters: of a variant, or of a KV format.
pub trait ErasedParams: Send + Sync {
    /// See [`VariantParams::set_values`]; after an error nothing has changed.
    fn set_values(&mut self, values: &ParamValues) -> Result<(), ParamError>;
    /// See [`VariantParams::to_values`].
    fn to_values(&self) -> ParamValues;
    /// See [`VariantParams::bind`].
    fn bind(&mut self, dims: &Dims) -> Result<(), BindError>;
    /// See [`VariantParams::shape`].
    fn shape(&self, field: usize, dims: &Dims) -> Result<Vec<i64>, ShapeProblem>;
    /// See [`VariantParams::visit_args`].
    fn visit_args(&self, visitor: &mut dyn ArgVisitor);
}

impl<P: VariantParams + Clone + Send + Sync> ErasedParams for P {
    fn set_values(&mut self, values: &ParamValues) -> Result<(), ParamError> {
        let mut changed = self.clone();
        VariantParams::set_values(&mut changed, values)?;
        *self = changed;
        Ok(())
    }
    fn to_values(&self) -> ParamValues {
        VariantParams::to_values(self)
    }
    fn bind(&mut self, dims: &Dims) -> Result<(), BindError> {
        VariantParams::bind(self, dims)
    }
    fn shape(&self, field: usize, dims: &Dims) -> Result<Vec<i64>, ShapeProblem> {
        VariantParams::shape(self, field, dims)
    }
    fn visit_args(&self, visitor: &mut dyn ArgVisitor) {
        VariantParams::visit_args(self, visitor);
    }
}
