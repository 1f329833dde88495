//! The types that a field of a variant may have, and how each reads a value given by name.

use std::fmt;

use super::desc::Elem;
use super::params::{ArgVisitor, TensorArg};
use super::table::TableElem;
use super::{FieldType, OutTensor, ParamError, ParamValue, Tensor};

/// A type that a field of a variant may have. Sealed: f32, i32, u32, bool, [`Tensor`]s of ranks 0 to 4, [`OutTensor`]s of ranks 1 to 4.
///
/// Whole numbers are taken where fractions are wanted, and the other way round when nothing is lost.
#[diagnostic::on_unimplemented(
    message = "a variant's parameter cannot be a `{Self}`",
    label = "use f32, i32, u32, bool, Tensor0<T> to Tensor4<T>, or OutTensor1 to OutTensor4",
    note = "instead of an enum, take an i32, or make the variant generic over a constant; instead of a struct, its fields"
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

/// A field that is a tensor.
pub trait TensorField: ParamField + Default {
    /// What its default gives: what an index gives.
    type Item;
    /// Its extents.
    fn extents(&self) -> Vec<i64>;
    /// Whether it holds values.
    fn is_set(&self) -> bool;
    /// Whether the default is to fill it: not given.
    fn wants_default(&self) -> bool;
    /// Fills it from the default; `values.len()` is the product of `shape`.
    fn fill(&mut self, values: Vec<Self::Item>, shape: &[i64]);
    /// Says that no value is less than the one before it in its row, or gives the first that is.
    fn rises(&mut self) -> Result<(), Fall>;
}

/// A value that is less than the one before it.
#[derive(Debug)]
pub struct Fall {
    /// Its index.
    pub at: Vec<i64>,
    /// It.
    pub value: String,
    /// The one before.
    pub before: String,
}

mod sealed {
    use super::{OutTensor, TableElem, Tensor};

    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i32 {}
    impl Sealed for u32 {}
    impl Sealed for u8 {}
    impl Sealed for bool {}
    impl<T: TableElem> Sealed for Tensor<T, 0> {}
    impl<T: TableElem> Sealed for Tensor<T, 1> {}
    impl<T: TableElem> Sealed for Tensor<T, 2> {}
    impl<T: TableElem> Sealed for Tensor<T, 3> {}
    impl<T: TableElem> Sealed for Tensor<T, 4> {}
    impl Sealed for OutTensor<1> {}
    impl Sealed for OutTensor<2> {}
    impl Sealed for OutTensor<3> {}
    impl Sealed for OutTensor<4> {}
}

/// A number or bool by name, before it is known where it goes. Sealed.
pub trait Scalar: sealed::Sealed + Copy + PartialOrd + fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// The Rust name.
    #[doc(hidden)]
    const NAME: &'static str;
    /// Reads a value given by name.
    #[doc(hidden)]
    fn read(value: &ParamValue) -> Result<Self, Unread>;
    /// The value by name.
    #[doc(hidden)]
    fn write(self) -> ParamValue;
    /// It as an integer, bools as 0 and 1; floats have none.
    #[doc(hidden)]
    fn integer(self) -> Option<i64>;
}

/// Why a value cannot be read.
#[doc(hidden)]
#[derive(Debug)]
pub enum Unread {
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
    fn integer(self) -> Option<i64> {
        Some(i64::from(self))
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
    fn integer(self) -> Option<i64> {
        None
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
            fn integer(self) -> Option<i64> {
                Some(i64::from(self))
            }
        }
    )*};
}
integer!(i32, u32, u8);

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

/// What is said of a list that is none, or not as deep or as even as its tensor.
fn list_type(elem: &str, rank: usize) -> String {
    match rank {
        0 => elem.to_owned(),
        1 => format!("a list of {elem}"),
        2 => format!("a list of rows of {elem}, all of one length"),
        _ => format!("lists of {elem}, {rank} deep, all of one length at each depth"),
    }
}

/// Reads lists in lists, as many as there are extents. `shape` is what is known of the lengths so far.
fn read_nested<T: TableElem>(
    value: &ParamValue,
    name: &str,
    shape: &mut [Option<usize>],
    out: &mut Vec<T::Value>,
) -> Result<(), Uneven> {
    let Some((len, inner)) = shape.split_first_mut() else {
        let read = T::read_elem(value).map_err(|why| Uneven::Element(why.at(name, T::ELEM.name(), value)))?;
        out.push(read);
        return Ok(());
    };
    let ParamValue::List(values) = value else { return Err(Uneven::Lists) };
    if *len.get_or_insert(values.len()) != values.len() {
        return Err(Uneven::Lists);
    }
    let mut each = values.iter().enumerate();
    each.try_for_each(|(i, value)| read_nested::<T>(value, &format!("{name}[{i}]"), inner, out))
}

/// What is wrong with a list.
enum Uneven {
    Lists,
    Element(ParamError),
}

/// Lists in lists, as deep as the shape.
fn write_nested<S: Scalar>(values: &mut impl Iterator<Item = S>, shape: &[i64]) -> Option<ParamValue> {
    match shape.split_first() {
        None => values.next().map(S::write),
        Some((&n, inner)) => (0..n).map(|_| write_nested(values, inner)).collect::<Option<_>>().map(ParamValue::List),
    }
}

/// The index of a place in memory.
fn index_of(place: usize, shape: &[i64]) -> Vec<i64> {
    let mut rest = place as i64;
    let mut index: Vec<i64> = (shape.iter().rev())
        .map(|&n| {
            let i = rest % n.max(1);
            rest /= n.max(1);
            i
        })
        .collect();
    index.reverse();
    index
}

impl<T: TableElem, const RANK: usize> ParamField for Tensor<T, RANK>
where
    Self: sealed::Sealed,
{
    const TYPE: FieldType = FieldType::Tensor { elem: T::ELEM, rank: RANK as u8 };
    fn from_value(name: &str, value: &ParamValue) -> Result<Self, ParamError> {
        let ty = || Unread::Type.at(name, &list_type(T::ELEM.name(), RANK), value);
        let (mut lengths, mut values) = ([None; RANK], Vec::new());
        read_nested::<T>(value, name, &mut lengths, &mut values).map_err(|why| match why {
            Uneven::Lists => ty(),
            Uneven::Element(error) => error,
        })?;
        Tensor::from_values(values, lengths.map(|len| len.unwrap_or(0))).map_err(|_| ty())
    }
    fn to_value(&self) -> Option<ParamValue> {
        let given = Tensor::is_set(self) && !self.is_computed();
        given.then(|| write_nested(&mut self.values(), &self.shape())).flatten()
    }
    fn visit(&self, visitor: &mut dyn ArgVisitor) {
        let bytes = bytemuck::cast_slice(self.as_slice());
        visitor.tensor(TensorArg { bytes, elem: T::ELEM, shape: &self.shape(), ranges: self });
    }
}

impl<T: TableElem, const RANK: usize> TensorField for Tensor<T, RANK>
where
    Self: sealed::Sealed,
{
    type Item = T::Value;
    fn extents(&self) -> Vec<i64> {
        self.shape().to_vec()
    }
    fn is_set(&self) -> bool {
        Tensor::is_set(self)
    }
    fn wants_default(&self) -> bool {
        !Tensor::is_set(self) || self.is_computed()
    }
    fn fill(&mut self, values: Vec<T::Value>, shape: &[i64]) {
        *self = Tensor::computed(values, std::array::from_fn(|i| shape.get(i).copied().unwrap_or(0)));
    }
    fn rises(&mut self) -> Result<(), Fall> {
        let Some(place) = self.first_fall() else {
            self.set_monotone();
            return Ok(());
        };
        let value = |i| self.values().nth(i).map_or_else(String::new, |x| x.to_string());
        Err(Fall { at: index_of(place, &self.shape()), value: value(place), before: value(place - 1) })
    }
}

/// By name it is given as the values that it starts with, in lists. It is never given back by name: it is a handle.
impl<const RANK: usize> ParamField for OutTensor<RANK>
where
    Self: sealed::Sealed,
{
    const TYPE: FieldType = FieldType::Out { rank: RANK as u8 };
    fn from_value(name: &str, value: &ParamValue) -> Result<Self, ParamError> {
        let ty = || Unread::Type.at(name, &list_type("f32", RANK), value);
        let (mut lengths, mut values) = ([None; RANK], Vec::new());
        read_nested::<f32>(value, name, &mut lengths, &mut values).map_err(|why| match why {
            Uneven::Lists => ty(),
            Uneven::Element(error) => error,
        })?;
        Ok(OutTensor::of(values, lengths.map(|len| len.unwrap_or(0) as i64)))
    }
    fn to_value(&self) -> Option<ParamValue> {
        None
    }
    fn visit(&self, visitor: &mut dyn ArgVisitor) {
        visitor.out(self.buffer(), &self.shape());
    }
}

impl<const RANK: usize> TensorField for OutTensor<RANK>
where
    Self: sealed::Sealed,
{
    type Item = f32;
    fn extents(&self) -> Vec<i64> {
        self.shape().to_vec()
    }
    fn is_set(&self) -> bool {
        OutTensor::is_set(self)
    }
    fn wants_default(&self) -> bool {
        !OutTensor::is_set(self)
    }
    fn fill(&mut self, values: Vec<f32>, shape: &[i64]) {
        *self = OutTensor::of(values, std::array::from_fn(|i| shape.get(i).copied().unwrap_or(0)));
    }
    fn rises(&mut self) -> Result<(), Fall> {
        Ok(()) // the derive refuses to ask
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bits, F8E4M3, Tensor0, Tensor1, Tensor2, Tensor3, Tensor4};
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

    fn json(text: &str) -> ParamValue {
        serde_json::from_str(text).expect("a value")
    }

    #[test]
    fn lists_are_as_deep_as_the_rank() {
        let t = read::<Tensor3<u8>>(&json("[[[1, 2, 3], [4, 5, 6]]]")).expect("even");
        assert_eq!((t.shape(), t.as_slice()), ([1, 2, 3], [1, 2, 3, 4, 5, 6].as_slice()));
        assert_eq!(read::<Tensor0<half::f16>>(&json("0.5")).expect("a number").get(), 0.5);
        let t = read::<Tensor4<Bits>>(&json("[[[[true], [false]], [[true], [true]]]]")).expect("even");
        assert_eq!((t.shape(), t.as_slice()), ([1, 2, 2, 1], [Bits(0b1101)].as_slice()));
        assert_eq!(read::<Tensor3<f32>>(&json("[]")).expect("no values").shape(), [0, 0, 0]);
        let says = |error: ParamError| error.to_string();
        let error = read::<Tensor3<f32>>(&json("[[[1], [2, 3]]]")).expect_err("uneven");
        let want = "parameter `x` is lists of f32, 3 deep, all of one length at each depth; got `[[[1], [2, 3]]]`";
        assert_eq!(says(error), want);
        let error = read::<Tensor3<f32>>(&json("[[1]]")).expect_err("not deep enough");
        assert!(matches!(error, ParamError::Type { .. }));
        let error = read::<Tensor2<bool>>(&json("[[true, 1]]")).expect_err("a number among bools");
        assert_eq!(says(error), "parameter `x[0][1]` is bool; got `1`");
        let error = read::<Tensor1<u8>>(&json("[255, 256]")).expect_err("nine bits");
        assert_eq!(says(error), "parameter `x[1]` is u8, which cannot hold 256; it holds 0 to 255");
        let error = read::<Tensor1<F8E4M3>>(&json("[448, -449]")).expect_err("too large");
        assert_eq!(says(error), "parameter `x[1]` is F8E4M3, which cannot hold -449; it holds magnitudes up to 448");
        assert!(read::<Tensor1<half::f16>>(&ParamValue::List(vec![ParamValue::Float(f64::INFINITY)])).is_ok());
    }

    #[test]
    fn what_is_read_is_written() {
        let round = |text: &str, back: Option<ParamValue>| assert_eq!(back.expect("given").to_string(), text);
        let text = "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]";
        round(text, read::<Tensor3<i32>>(&json(text)).expect("even").to_value());
        round("[true, false, true]", read::<Tensor1<Bits>>(&json("[true, false, true]")).expect("even").to_value());
        round("0.25", read::<Tensor0<F8E4M3>>(&json("0.25")).expect("a number").to_value());
        let wide = read::<Tensor1<half::bf16>>(&json("[0.1]")).expect("a number").to_value().expect("given");
        assert_eq!(
            read::<Tensor1<half::bf16>>(&wide).expect("the same").to_value(),
            Some(wide),
            "what was rounded stays"
        );
    }

    #[test]
    fn an_f32_is_written_as_short_as_it_is_read() {
        assert_eq!(0.1f32.to_value().expect("a scalar").to_string(), "0.1");
        assert_eq!(30f32.to_value().expect("a scalar").to_string(), "30");
        assert_eq!(1e30f32.to_value().expect("a scalar").to_string(), "1e30");
    }
}
