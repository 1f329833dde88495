//! Parameters whose types are known at run time.

use attn_codegen::params::{self, Field};
use attn_core::lang::derive_support::{ShapeProblem, bind_tensor};
use attn_core::lang::desc::Elem;
use attn_core::lang::field::{ParamField, TensorField};
use attn_core::lang::interval::{IntervalOf, Val, element, of};
use attn_core::lang::params::ArgVisitor;
use attn_core::lang::{
    BindError, Bits, F8E4M3, F8E5M2, FieldDesc, FieldType, OutTensor, ParamError, ParamValue, Tensor,
};
use half::{bf16, f16};

use crate::condition::Number;

/// What every parameter does, of whatever type.
pub(crate) trait Parameter: Send + Sync {
    /// A copy; tensors share their elements.
    fn clone_box(&self) -> Box<dyn Value>;
    /// Replaces it by a value by name.
    fn set(&mut self, name: &str, value: &ParamValue) -> Result<(), ParamError>;
    /// See [`ParamField::to_value`].
    fn to_value(&self) -> Option<ParamValue>;
    /// See [`ParamField::visit`].
    fn visit(&self, visitor: &mut dyn ArgVisitor);
}

impl<T: ParamField + Value + Clone> Parameter for T {
    fn clone_box(&self) -> Box<dyn Value> {
        Box::new(self.clone())
    }
    fn set(&mut self, name: &str, value: &ParamValue) -> Result<(), ParamError> {
        *self = T::from_value(name, value)?;
        Ok(())
    }
    fn to_value(&self) -> Option<ParamValue> {
        ParamField::to_value(self)
    }
    fn visit(&self, visitor: &mut dyn ArgVisitor) {
        ParamField::visit(self, visitor);
    }
}

/// A parameter's value, and what differs between types.
pub(crate) trait Value: Parameter {
    /// The value of a scalar.
    fn number(&self) -> Option<Number> {
        None
    }
    /// The elements of a tensor; `None` where it is not set.
    fn elements(&self) -> Option<Vec<Number>> {
        None
    }
    /// The value of a scalar over a tile.
    fn over_tile(&self) -> Val {
        Val::Any
    }
    /// An element of a tensor over a tile.
    fn element_over_tile(&self, _indices: &[Val]) -> Val {
        Val::Any
    }
    /// Checks a tensor against its shape.
    fn bind(&mut self, _field: &FieldDesc, _want: Result<Vec<i64>, ShapeProblem>) -> Result<(), BindError> {
        Ok(())
    }
}

/// A parameter of this type that is not set; a scalar is zero.
pub(crate) fn unset(ty: FieldType) -> Box<dyn Value> {
    macro_rules! ranks {
        ($elem:ty, $rank:expr) => {
            match $rank {
                0 => Box::new(Tensor::<$elem, 0>::default()) as Box<dyn Value>,
                1 => Box::new(Tensor::<$elem, 1>::default()),
                2 => Box::new(Tensor::<$elem, 2>::default()),
                3 => Box::new(Tensor::<$elem, 3>::default()),
                _ => Box::new(Tensor::<$elem, 4>::default()),
            }
        };
    }
    match ty {
        FieldType::Scalar(Elem::I32) => Box::new(0i32),
        FieldType::Scalar(Elem::U32) => Box::new(0u32),
        FieldType::Scalar(Elem::Bool) => Box::new(false),
        FieldType::Scalar(_) => Box::new(0f32),
        FieldType::Tensor { elem, rank } => match elem {
            Elem::F32 => ranks!(f32, rank),
            Elem::F16 => ranks!(f16, rank),
            Elem::Bf16 => ranks!(bf16, rank),
            Elem::F8E4M3 => ranks!(F8E4M3, rank),
            Elem::F8E5M2 => ranks!(F8E5M2, rank),
            Elem::I32 => ranks!(i32, rank),
            Elem::U32 => ranks!(u32, rank),
            Elem::U8 => ranks!(u8, rank),
            Elem::Bool => ranks!(bool, rank),
            Elem::Bits => ranks!(Bits, rank),
        },
        FieldType::Out { rank: 1 } => Box::new(OutTensor::<1>::default()),
        FieldType::Out { rank: 2 } => Box::new(OutTensor::<2>::default()),
        FieldType::Out { rank: 3 } => Box::new(OutTensor::<3>::default()),
        FieldType::Out { .. } => Box::new(OutTensor::<4>::default()),
    }
}

/// The type of a field, if it is one of a parameter.
pub(crate) fn field_type(field: &Field) -> Option<FieldType> {
    let elem = field.elem().and_then(|name| elem_of(&name));
    let rank = |rank: usize| u8::try_from(rank).ok();
    match field.kind {
        params::Kind::Tensor(n) => Some(FieldType::Tensor { elem: elem?, rank: rank(n)? }),
        params::Kind::Out(n) => Some(FieldType::Out { rank: rank(n)? }),
        _ => elem.filter(|elem| matches!(elem, Elem::F32 | Elem::I32 | Elem::U32 | Elem::Bool)).map(FieldType::Scalar),
    }
}

fn elem_of(name: &str) -> Option<Elem> {
    let all = [
        Elem::F32,
        Elem::F16,
        Elem::Bf16,
        Elem::F8E4M3,
        Elem::F8E5M2,
        Elem::I32,
        Elem::U32,
        Elem::U8,
        Elem::Bool,
        Elem::Bits,
    ];
    all.into_iter().find(|elem| elem.name() == name)
}

/// A value by name as a number.
fn number_of(value: &ParamValue) -> Option<Number> {
    match *value {
        ParamValue::Bool(x) => Some(Number::Bool(x)),
        ParamValue::Int(x) => Some(Number::Int(x)),
        ParamValue::Float(x) => Some(Number::Float(x as f32)),
        ParamValue::List(_) => None,
    }
}

macro_rules! scalars {
    ($($t:ty => $number:expr),*) => {$(
        impl Value for $t {
            fn number(&self) -> Option<Number> {
                Some($number(*self))
            }
            fn over_tile(&self) -> Val {
                of(*self)
            }
        }
    )*};
}
scalars!(
    f32 => Number::Float,
    i32 => |x| Number::Int(i64::from(x)),
    u32 => |x| Number::Int(i64::from(x)),
    bool => Number::Bool
);

impl<T, const RANK: usize> Value for Tensor<T, RANK>
where
    Tensor<T, RANK>: TensorField + IntervalOf,
{
    fn elements(&self) -> Option<Vec<Number>> {
        let mut all = Vec::new();
        flatten(&ParamField::to_value(self)?, &mut all);
        Some(all)
    }
    fn element_over_tile(&self, indices: &[Val]) -> Val {
        element(self, indices)
    }
    fn bind(&mut self, field: &FieldDesc, want: Result<Vec<i64>, ShapeProblem>) -> Result<(), BindError> {
        bind_tensor(self, field, want, None)
    }
}

impl<const RANK: usize> Value for OutTensor<RANK>
where
    OutTensor<RANK>: TensorField,
{
    fn bind(&mut self, field: &FieldDesc, want: Result<Vec<i64>, ShapeProblem>) -> Result<(), BindError> {
        bind_tensor(self, field, want, None)
    }
}

fn flatten(value: &ParamValue, to: &mut Vec<Number>) {
    match value {
        ParamValue::List(values) => values.iter().for_each(|value| flatten(value, to)),
        value => to.extend(number_of(value)),
    }
}

/// A scalar as a value by name.
pub(crate) fn written(number: Number) -> ParamValue {
    match number {
        Number::Int(x) => ParamValue::Int(x),
        Number::Float(x) => ParamValue::Float(x.into()),
        Number::Bool(x) => ParamValue::Bool(x),
    }
}
