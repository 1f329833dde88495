//! Functions that the code of `#[derive(VariantParams)]` calls: reading values by name, conditions, shapes, defaults.

use super::field::{Decrease, TensorField};
pub use super::params::ShapeProblem;
use super::params::{ParamField, RequireError};
use super::{BindError, Dims, FieldDesc, ParamError, ParamValue, ParamValues, VariantParams};
use crate::nearest::nearest;

/// Reads fields from values by name. Every name must be known and given once.
#[derive(Debug)]
pub struct ParamReader<'a> {
    values: &'a ParamValues,
    fields: &'static [FieldDesc],
}

impl<'a> ParamReader<'a> {
    /// Checks the names.
    pub fn new(values: &'a ParamValues, fields: &'static [FieldDesc]) -> Result<Self, ParamError> {
        for (i, (name, _)) in values.0.iter().enumerate() {
            if !fields.iter().any(|f| f.name == name) {
                return Err(ParamError::Unknown {
                    name: name.clone(),
                    nearest: nearest(name, fields.iter().map(|f| f.name)).map(str::to_owned),
                    known: fields.iter().map(|f| f.name.to_owned()).collect(),
                });
            }
            if values.0[..i].iter().any(|(earlier, _)| earlier == name) {
                return Err(ParamError::Twice { name: name.clone() });
            }
        }
        Ok(ParamReader { values, fields })
    }

    /// Reads a field without a default.
    pub fn required<T: ParamField>(&self, name: &str) -> Result<T, ParamError> {
        let field = self.fields.iter().find(|f| f.name == name);
        let value = self.values.get(name).ok_or_else(|| ParamError::Missing {
            name: name.to_owned(),
            ty: field.map_or_else(String::new, |f| f.ty.to_string()),
        })?;
        T::from_value(name, value)
    }

    /// Reads a tensor; unset when it is not given. Binding then fills it from its default, or refuses it.
    pub fn tensor<T: TensorField>(&self, name: &str) -> Result<T, ParamError> {
        self.optional(name, T::default)
    }

    /// Reads a field that keeps `value` unless it is given.
    pub fn or<T: ParamField>(&self, name: &str, value: &T) -> Result<T, ParamError> {
        self.optional(name, || value.clone())
    }

    /// Reads a field with a default.
    pub fn optional<T: ParamField>(&self, name: &str, default: impl FnOnce() -> T) -> Result<T, ParamError> {
        self.values.get(name).map_or_else(|| Ok(default()), |value| T::from_value(name, value))
    }
}

/// A dimension in a shape.
pub fn dim(extent: Option<i64>) -> Result<i64, ShapeProblem> {
    extent.ok_or(ShapeProblem::Unknown)
}

/// A dimension in a condition.
pub fn dim_i32(extent: Option<i64>) -> Option<i32> {
    extent.map(|x| i32::try_from(x).unwrap_or(i32::MAX))
}

/// Calls the default of a tensor. This signature lets rustc infer the types of a closure that has none written.
pub fn call_default<S: VariantParams, T>(params: &S, dims: &Dims, default: impl FnOnce(&S, &Dims) -> Vec<T>) -> Vec<T> {
    default(params, dims)
}

/// Fills a tensor from `default`, if that is given, and checks it against its shape, as far as that is known.
pub fn bind_tensor<T: TensorField>(
    tensor: &mut T,
    field: &FieldDesc,
    want: Result<Vec<i64>, ShapeProblem>,
    default: Option<Vec<T::Item>>,
) -> Result<(), BindError> {
    let (name, shape) = (field.name.to_owned(), field.shape.to_owned());
    let want = match want {
        Ok(want) => Some(want),
        Err(ShapeProblem::Unknown) => None,
        Err(ShapeProblem::Arithmetic) => return Err(BindError::ShapeArithmetic { name, shape }),
    };
    if let (Some(values), Some(want)) = (default, &want) {
        let got = values.len();
        let count = want.iter().try_fold(1i64, |n, &x| n.checked_mul(x));
        if count != Some(got as i64) || want.iter().any(|&x| x < 0) {
            return Err(BindError::DefaultLength { name, shape, want: want.clone(), got });
        }
        tensor.fill(values, want);
    }
    if !tensor.is_set() {
        // its shape is not known yet: a later binding fills it from the default
        return if field.default.is_some() { Ok(()) } else { Err(BindError::Unset { name }) };
    }
    let got = tensor.extents();
    match want {
        Some(want) if !fits(field, &want, &got) => return Err(misfit(field, want, got)),
        None if got.contains(&0) => return Err(BindError::Empty { name, shape }),
        _ if got.iter().any(|&n| n > i64::from(i32::MAX)) => return Err(BindError::TooLarge { name, got }),
        _ => {}
    }
    if field.mutable {
        tensor.set_mutable();
    }
    if field.monotone {
        tensor.check_monotone().map_err(|Decrease { at, value, before }| BindError::NotMonotone {
            name,
            at,
            value,
            before,
        })?;
    }
    Ok(())
}

/// Whether a tensor has its shape, or is larger where it may be.
fn fits(field: &FieldDesc, want: &[i64], got: &[i64]) -> bool {
    let fits = |(axis, (want, got)): (usize, (&i64, &i64))| want == got || field.grows_along(axis) && want < got;
    want.len() == got.len() && want.iter().zip(got).enumerate().all(fits)
}

/// The error for a tensor that does not fit.
fn misfit(field: &FieldDesc, want: Vec<i64>, got: Vec<i64>) -> BindError {
    let (name, shape) = (field.name.to_owned(), field.shape.to_owned());
    // the shape with as many of each count as the tensor has room for
    let least =
        |(axis, (want, got)): (usize, (&i64, &i64))| if field.grows_along(axis) { *want.min(got) } else { *want };
    let within: Vec<_> = want.iter().zip(&got).enumerate().map(least).collect();
    if fits(field, &within, &got) {
        BindError::Outgrown { name, shape, want, got }
    } else {
        BindError::Shape { name, shape, want, got }
    }
}

/// The error for a `#[require]` that does not hold.
pub fn require_failed(field: &FieldDesc, value: Option<ParamValue>) -> RequireError {
    RequireError {
        name: field.name.to_owned(),
        value: value.map_or_else(|| "(unset)".to_owned(), |v| v.to_string()),
        require: field.require.unwrap_or_default().to_owned(),
    }
}
