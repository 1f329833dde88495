//! The types that a field of a variant may have, and how each reads a value given by name.

use super::desc::Elem;
use super::params::ArgVisitor;
use super::table::TableElem;
use super::{FieldType, ParamError, ParamValue, Tensor1, Tensor2};

/// A type that a field of a variant may have. Sealed: f32, i32, u32, bool, and [`Tensor1`], [`Tensor2`] of f32, i32, u32.
///
/// Whole numbers are taken where fractions are wanted, and the other way round when nothing is lost.
#[diagnostic::on_unimplemented(
    message = "a variant's parameter cannot be a `{Self}`",
    label = "use f32, i32, u32, bool, Tensor1<T> or Tensor2<T>"
)]
pub trait ParamField: sealed::Sealed + Clone + Send + Sync + 'static {
    /// How descriptors name the type.
    const TYPE: FieldType;
    /// Reads a value given by name.
    fn from_value(name: &str, value: &ParamValue) -> Result<Self, ParamError>;
    /// The value, unless it is a tensor that was not given.
    fn to_value(&self) -> Option<ParamValue>;
    /// Passes the field on as a kernel argument.
    fn visit(&self, visitor: &mut dyn ArgVisitor);
}

/// A field that is a captured tensor.
pub trait TensorField: ParamField + Default {
    /// Its elements.
    type Item: TableElem;
    /// Its extents.
    fn extents(&self) -> Vec<i64>;
    /// Whether it holds values.
    fn is_set(&self) -> bool;
    /// Whether the default is to fill it: not given.
    fn wants_default(&self) -> bool;
    /// Fills it from the default; `values.len()` is the product of `shape`.
    fn fill(&mut self, values: Vec<Self::Item>, shape: &[i64]);
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

/// A scalar by name, before it is known where it goes.
trait Scalar: Copy {
    const NAME: &'static str;
    fn read(value: &ParamValue) -> Result<Self, Unread>;
    fn write(self) -> ParamValue;
}

/// Why a value cannot be read.
enum Unread {
    Type,
    Range(String),
}

impl Unread {
    fn at(self, name: &str, ty: &str, got: &ParamValue) -> ParamError {
        let (name, ty, got) = (name.to_owned(), ty.to_owned(), got.to_string());
        match self {
            Unread::Type => ParamError::Type { name, ty, got },
            Unread::Range(range) => ParamError::Range { name, ty, got, range },
        }
    }
}

impl Scalar for bool {
    const NAME: &'static str = "bool";
    fn read(value: &ParamValue) -> Result<Self, Unread> {
        if let ParamValue::Bool(x) = value { Ok(*x) } else { Err(Unread::Type) }
    }
    fn write(self) -> ParamValue {
        ParamValue::Bool(self)
    }
}

impl Scalar for f32 {
    const NAME: &'static str = "f32";
    fn read(value: &ParamValue) -> Result<Self, Unread> {
        let wide = match *value {
            ParamValue::Int(x) => x as f64,
            ParamValue::Float(x) => x,
            _ => return Err(Unread::Type),
        };
        let x = wide as f32;
        if wide.is_finite() && !x.is_finite() {
            return Err(Unread::Range(format!("magnitudes up to {:e}", f32::MAX)));
        }
        Ok(x)
    }
    fn write(self) -> ParamValue {
        // the shortest decimal that means this f32, so that 0.1 is written as 0.1
        let shortest = self.to_string().parse::<f64>().ok();
        ParamValue::Float(shortest.filter(|&x| x as f32 == self).unwrap_or(f64::from(self)))
    }
}

macro_rules! integer {
    ($($t:ident),*) => {$(
        impl Scalar for $t {
            const NAME: &'static str = stringify!($t);
            fn read(value: &ParamValue) -> Result<Self, Unread> {
                let range = || Unread::Range(format!("{} to {}", $t::MIN, $t::MAX));
                match *value {
                    ParamValue::Int(x) => $t::try_from(x).map_err(|_| range()),
                    // i64 holds every whole f64 that could fit
                    ParamValue::Float(x) if x.fract() == 0.0 => $t::try_from(x as i64).map_err(|_| range()),
                    _ => Err(Unread::Type),
                }
            }
            fn write(self) -> ParamValue {
                ParamValue::Int(i64::from(self))
            }
        }
    )*};
}
integer!(i32, u32);

macro_rules! scalar_field {
    ($($t:ty, $elem:ident, |$x:ident| $bits:expr;)*) => {$(
        impl ParamField for $t {
            const TYPE: FieldType = FieldType::Scalar(Elem::$elem);
            fn from_value(name: &str, value: &ParamValue) -> Result<Self, ParamError> {
                Self::read(value).map_err(|why| why.at(name, Self::NAME, value))
            }
            fn to_value(&self) -> Option<ParamValue> {
                Some(self.write())
            }
            fn visit(&self, visitor: &mut dyn ArgVisitor) {
                let $x = *self;
                visitor.scalar($bits);
            }
        }
    )*};
}
scalar_field! {
    f32, F32, |x| x.to_bits();
    i32, I32, |x| x.cast_unsigned();
    u32, U32, |x| x;
    bool, Bool, |x| u32::from(x);
}

/// The elements of a list.
fn read_list<T: Scalar>(values: &[ParamValue], name: &str, out: &mut Vec<T>) -> Result<(), ParamError> {
    for (i, value) in values.iter().enumerate() {
        out.push(T::read(value).map_err(|why| why.at(&format!("{name}[{i}]"), T::NAME, value))?);
    }
    Ok(())
}

fn write_list<T: Scalar>(values: &[T]) -> ParamValue {
    ParamValue::List(values.iter().map(|x| x.write()).collect())
}

macro_rules! tensor_fields {
    ($($t:ty),*) => {$(
        impl ParamField for Tensor1<$t> {
            const TYPE: FieldType = FieldType::Tensor { elem: <$t as TableElem>::ELEM, rank: 1 };
            fn from_value(name: &str, value: &ParamValue) -> Result<Self, ParamError> {
                let ParamValue::List(values) = value else {
                    return Err(Unread::Type.at(name, concat!("a list of ", stringify!($t)), value));
                };
                let mut out = Vec::with_capacity(values.len());
                read_list::<$t>(values, name, &mut out)?;
                Ok(out.into())
            }
            fn to_value(&self) -> Option<ParamValue> {
                (self.is_set() && !self.is_computed()).then(|| write_list(self.as_slice()))
            }
            fn visit(&self, visitor: &mut dyn ArgVisitor) {
                visitor.tensor(bytemuck::cast_slice(self.as_slice()), &self.extents());
            }
        }

        impl TensorField for Tensor1<$t> {
            type Item = $t;
            fn extents(&self) -> Vec<i64> {
                vec![self.len() as i64]
            }
            fn is_set(&self) -> bool {
                Tensor1::is_set(self)
            }
            fn wants_default(&self) -> bool {
                !Tensor1::is_set(self) || self.is_computed()
            }
            fn fill(&mut self, values: Vec<$t>, _shape: &[i64]) {
                *self = Tensor1::computed(values);
            }
        }

        impl ParamField for Tensor2<$t> {
            const TYPE: FieldType = FieldType::Tensor { elem: <$t as TableElem>::ELEM, rank: 2 };
            fn from_value(name: &str, value: &ParamValue) -> Result<Self, ParamError> {
                let ty = concat!("a list of rows of ", stringify!($t), ", all of one length");
                let ParamValue::List(rows) = value else { return Err(Unread::Type.at(name, ty, value)) };
                let mut out = Vec::new();
                let mut columns = None;
                for (i, row) in rows.iter().enumerate() {
                    let ParamValue::List(values) = row else { return Err(Unread::Type.at(name, ty, value)) };
                    if *columns.get_or_insert(values.len()) != values.len() {
                        return Err(Unread::Type.at(name, ty, value));
                    }
                    read_list::<$t>(values, &format!("{name}[{i}]"), &mut out)?;
                }
                Tensor2::new(out, [rows.len(), columns.unwrap_or(0)]).map_err(|_| Unread::Type.at(name, ty, value))
            }
            fn to_value(&self) -> Option<ParamValue> {
                if !self.is_set() || self.is_computed() {
                    return None;
                }
                let [rows, columns] = self.shape().map(|n| n as usize);
                let row = |i: usize| write_list(&self.as_slice()[i * columns..(i + 1) * columns]);
                Some(ParamValue::List((0..rows).map(row).collect()))
            }
            fn visit(&self, visitor: &mut dyn ArgVisitor) {
                visitor.tensor(bytemuck::cast_slice(self.as_slice()), &self.extents());
            }
        }

        impl TensorField for Tensor2<$t> {
            type Item = $t;
            fn extents(&self) -> Vec<i64> {
                self.shape().to_vec()
            }
            fn is_set(&self) -> bool {
                Tensor2::is_set(self)
            }
            fn wants_default(&self) -> bool {
                !Tensor2::is_set(self) || self.is_computed()
            }
            fn fill(&mut self, values: Vec<$t>, shape: &[i64]) {
                *self = Tensor2::computed(values, [shape[0], shape[1]]);
            }
        }
    )*};
}
tensor_fields!(f32, i32, u32);

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: ParamField>(value: &ParamValue) -> Result<T, ParamError> {
        T::from_value("x", value)
    }

    #[test]
    fn whole_numbers_go_where_nothing_is_lost() {
        assert_eq!(read::<f32>(&ParamValue::Int(30)), Ok(30.0));
        assert_eq!(read::<i32>(&ParamValue::Float(-4.0)), Ok(-4));
        assert!(matches!(read::<i32>(&ParamValue::Float(0.5)), Err(ParamError::Type { .. })));
        assert!(matches!(read::<i32>(&ParamValue::Float(f64::NAN)), Err(ParamError::Type { .. })));
        assert!(matches!(read::<bool>(&ParamValue::Int(1)), Err(ParamError::Type { .. })));
    }

    #[test]
    fn what_a_type_cannot_hold_is_refused() {
        let error = read::<u32>(&ParamValue::Int(-1)).expect_err("negative");
        assert_eq!(error.to_string(), "parameter `x` is u32, which cannot hold -1; it holds 0 to 4294967295");
        assert!(matches!(read::<i32>(&ParamValue::Int(1 << 31)), Err(ParamError::Range { .. })));
        assert!(matches!(read::<i32>(&ParamValue::Float(1e300)), Err(ParamError::Range { .. })));
        assert!(matches!(read::<f32>(&ParamValue::Float(1e39)), Err(ParamError::Range { .. })));
        assert_eq!(read::<f32>(&ParamValue::Float(f64::INFINITY)), Ok(f32::INFINITY));
    }

    #[test]
    fn lists_name_the_element_that_is_wrong() {
        let list = ParamValue::List(vec![ParamValue::Int(1), ParamValue::Bool(true)]);
        let error = read::<Tensor1<f32>>(&list).expect_err("a bool among numbers");
        assert_eq!(error.to_string(), "parameter `x[1]` is f32; got `true`");
        let ragged = ParamValue::List(vec![ParamValue::List(vec![ParamValue::Int(1)]), ParamValue::List(vec![])]);
        assert!(matches!(read::<Tensor2<i32>>(&ragged), Err(ParamError::Type { .. })));
    }

    #[test]
    fn an_f32_is_written_as_short_as_it_is_read() {
        assert_eq!(0.1f32.to_value().expect("a scalar").to_string(), "0.1");
        assert_eq!(30f32.to_value().expect("a scalar").to_string(), "30");
        assert_eq!(1e30f32.to_value().expect("a scalar").to_string(), "1e30");
    }
}
