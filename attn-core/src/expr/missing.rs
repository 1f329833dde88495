//! Parameter tensors that must be given before a variant can be bound.

use super::owner::Owner;
use crate::lang::param_tensor::OutBuffer;
use crate::lang::params::{ArgVisitor, ShapeProblem, TensorArg};
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

/// For each field, whether it is an output tensor that was given.
#[derive(Default)]
struct OutputsSet(Vec<bool>);

impl ArgVisitor for OutputsSet {
    fn scalar(&mut self, _: u32) {
        self.0.push(false);
    }
    fn tensor(&mut self, _: TensorArg<'_>) {
        self.0.push(false);
    }
    fn out(&mut self, buffer: Option<&OutBuffer>, _: &[i64]) {
        self.0.push(buffer.is_some());
    }
}

/// The tensors that [`Variant::missing`](super::Variant::missing) gives.
pub(super) fn missing(owners: &[Owner<'_>], dims: &Dims) -> Result<Vec<MissingTensor>, BindError> {
    let mut missing = Vec::new();
    for (part, owner) in owners.iter().enumerate() {
        let values = owner.params.to_values();
        let mut set = OutputsSet::default();
        owner.params.visit_args(&mut set);
        for (i, field) in owner.fields.iter().enumerate() {
            let given = match field.ty {
                FieldType::Scalar(_) => true,
                FieldType::Tensor { .. } => values.get(field.name).is_some(),
                FieldType::Out { .. } => set.0.get(i).copied().unwrap_or(false),
            };
            if given || field.default.is_some() {
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
