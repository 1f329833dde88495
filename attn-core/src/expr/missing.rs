//! Parameter tensors that must be given before a variant can be bound.

use super::owner::{FieldValue, Owner};
use crate::lang::params::ShapeProblem;
use crate::lang::{BindError, Dims, FieldDesc, FieldType};

/// A parameter tensor that was not given and has no default.
#[derive(Clone, Debug)]
pub struct MissingTensor {
    /// Number of its part, counted as [`Variant::parts`](super::Variant::parts) does; KV formats come after all parts.
    pub part: usize,
    /// Its descriptor.
    pub field: &'static FieldDesc,
    /// Its shape; `None` while a dimension in it is unknown.
    pub shape: Option<Vec<i64>>,
}

/// The tensors that [`Variant::missing`](super::Variant::missing) gives.
pub(super) fn missing(owners: &[Owner<'_>], dims: &Dims) -> Result<Vec<MissingTensor>, BindError> {
    let mut missing = Vec::new();
    for (part, owner) in owners.iter().enumerate() {
        let (by_name, in_order) = (owner.params.to_values(), owner.values());
        for (i, field) in owner.fields.iter().enumerate() {
            let is_given = match field.ty {
                FieldType::Scalar(_) => true,
                // a tensor that was filled from its default is not given, and has no value by name
                FieldType::Tensor { .. } => by_name.get(field.name).is_some(),
                FieldType::Out { .. } => matches!(in_order.get(i), Some(FieldValue::Output { is_set: true })),
            };
            if is_given || field.default.is_some() {
                continue;
            }
            let shape = match owner.params.shape(i, &owner.dims(dims)) {
                Ok(shape) => Some(shape),
                Err(ShapeProblem::Unknown) => None,
                Err(ShapeProblem::Arithmetic) => {
                    let (name, shape) = (field.name.to_owned(), field.shape.to_owned());
                    return Err(BindError::ShapeArithmetic { name, shape });
                }
            };
            missing.push(MissingTensor { part, field, shape });
        }
    }
    Ok(missing)
}
