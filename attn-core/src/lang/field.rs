//! The types of a variant's fields, and how each is read from a value by name.

use super::desc::Elem;
use super::param_tensor::ParamElement;
use super::params::{ArgVisitor, TensorArg};
use super::scalar::{ReadError, Scalar};
use super::{FieldType, OutTensor, ParamError, ParamValue, Tensor};

/// The type of a variant's field. Sealed: f32, i32, u32, bool, [`Tensor`]s of ranks 0 to 4, [`OutTensor`]s of ranks 1
/// to 4.
///
/// Integers are accepted for floats, and floats for integers where no information is lost.
#[diagnostic::on_unimplemented(
    message = "a variant's parameter cannot be a `{Self}`",
    label = "use f32, i32, u32, bool, Tensor0<T> to Tensor4<T>, or OutTensor1 to OutTensor4",
    note = "instead of an enum, take an i32, or make the variant generic over a constant; instead of a struct, its \
     fields"
)]
pub trait ParamField: sealed::Sealed + Clone + Send + Sync + 'static {
    /// How descriptors name the type.
    const TYPE: FieldType;
    /// Reads a value.
    fn from_value(name: &str, value: &ParamValue) -> Result<Self, ParamError>;
    /// The value; `None` for a tensor that was not given.
    fn to_value(&self) -> Option<ParamValue>;
    /// Passes the field to a visitor of kernel arguments.
    fn visit(&self, visitor: &mut dyn ArgVisitor);
}

/// A field that is a tensor.
pub trait TensorField: ParamField + Default {
    /// The type of an element as an index gives it.
    type Item;
    /// Its shape.
    fn extents(&self) -> Vec<i64>;
    /// Whether it holds values.
    fn is_set(&self) -> bool;
    /// Whether binding fills the tensor from its default, because no values were given.
    fn wants_default(&self) -> bool;
    /// Fills it with default values; `values.len()` is the product of `shape`.
    fn fill(&mut self, values: Vec<Self::Item>, shape: &[i64]);
    /// Notes `#[mutable]`: nothing is known of the values.
    fn set_mutable(&mut self);
    /// Checks `#[monotone]`: values never decrease along the last axis. The error is the first decrease.
    fn check_monotone(&mut self) -> Result<(), Decrease>;
}

/// A decrease along the last axis.
#[derive(Debug)]
pub struct Decrease {
    /// The index.
    pub at: Vec<i64>,
    /// The value there.
    pub value: String,
    /// The value before it.
    pub before: String,
}

mod sealed {
    use super::{OutTensor, ParamElement, Tensor};

    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i32 {}
    impl Sealed for u32 {}
    impl Sealed for bool {}
    impl<T: ParamElement> Sealed for Tensor<T, 0> {}
    impl<T: ParamElement> Sealed for Tensor<T, 1> {}
    impl<T: ParamElement> Sealed for Tensor<T, 2> {}
    impl<T: ParamElement> Sealed for Tensor<T, 3> {}
    impl<T: ParamElement> Sealed for Tensor<T, 4> {}
    impl Sealed for OutTensor<1> {}
    impl Sealed for OutTensor<2> {}
    impl Sealed for OutTensor<3> {}
    impl Sealed for OutTensor<4> {}
}

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

/// The expected nesting of a list, for error messages.
fn list_description(elem: &str, rank: usize) -> String {
    match rank {
        0 => elem.to_owned(),
        1 => format!("a list of {elem}"),
        2 => format!("a list of rows of {elem}, all of one length"),
        _ => format!("lists of {elem}, {rank} deep, all of one length at each depth"),
    }
}

/// Reads nested lists. `shape` holds the lengths known so far, one for each level.
fn read_nested<T: ParamElement>(
    value: &ParamValue,
    name: &str,
    shape: &mut [Option<usize>],
    out: &mut Vec<T::Value>,
) -> Result<(), ListError> {
    let Some((len, inner)) = shape.split_first_mut() else {
        let read = T::read_elem(value).map_err(|why| ListError::Element(why.at(name, T::ELEM.name(), value)))?;
        out.push(read);
        return Ok(());
    };
    let ParamValue::List(values) = value else { return Err(ListError::Lists) };
    if *len.get_or_insert(values.len()) != values.len() {
        return Err(ListError::Lists);
    }
    let mut each = values.iter().enumerate();
    each.try_for_each(|(i, value)| read_nested::<T>(value, &format!("{name}[{i}]"), inner, out))
}

/// Why nested lists cannot be read.
enum ListError {
    Lists,
    Element(ParamError),
}

/// The index of an offset in elements.
fn index_of(offset: usize, shape: &[i64]) -> Vec<i64> {
    let mut rest = offset as i64;
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

impl<T: ParamElement, const RANK: usize> ParamField for Tensor<T, RANK>
where
    Self: sealed::Sealed,
{
    const TYPE: FieldType = FieldType::Tensor { elem: T::ELEM, rank: RANK as u8 };
    fn from_value(name: &str, value: &ParamValue) -> Result<Self, ParamError> {
        let ty = || ReadError::Type.at(name, &list_description(T::ELEM.name(), RANK), value);
        let (mut lengths, mut values) = ([None; RANK], Vec::new());
        read_nested::<T>(value, name, &mut lengths, &mut values).map_err(|why| match why {
            ListError::Lists => ty(),
            ListError::Element(error) => error,
        })?;
        Tensor::from_values(values, lengths.map(|len| len.unwrap_or(0))).map_err(|_| ty())
    }
    fn to_value(&self) -> Option<ParamValue> {
        let given = Tensor::is_set(self) && !self.is_computed();
        given.then(|| ParamValue::nested(&self.shape(), &mut self.values().map(Scalar::write)))
    }
    fn visit(&self, visitor: &mut dyn ArgVisitor) {
        let bytes = bytemuck::cast_slice(self.as_slice());
        visitor.tensor(TensorArg { bytes, elem: T::ELEM, shape: &self.shape(), bounds: self });
    }
}

impl<T: ParamElement, const RANK: usize> TensorField for Tensor<T, RANK>
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
    fn set_mutable(&mut self) {
        self.note_mutable();
    }
    fn check_monotone(&mut self) -> Result<(), Decrease> {
        let Some(index) = self.first_decrease() else {
            self.set_monotone();
            return Ok(());
        };
        let value = |i| self.values().nth(i).map_or_else(String::new, |x| x.to_string());
        Err(Decrease { at: index_of(index, &self.shape()), value: value(index), before: value(index - 1) })
    }
}

/// By name it is given by its initial values, in nested lists. Being a handle, it is never written by name.
impl<const RANK: usize> ParamField for OutTensor<RANK>
where
    Self: sealed::Sealed,
{
    const TYPE: FieldType = FieldType::Out { rank: RANK as u8 };
    fn from_value(name: &str, value: &ParamValue) -> Result<Self, ParamError> {
        let ty = || ReadError::Type.at(name, &list_description("f32", RANK), value);
        let (mut lengths, mut values) = ([None; RANK], Vec::new());
        read_nested::<f32>(value, name, &mut lengths, &mut values).map_err(|why| match why {
            ListError::Lists => ty(),
            ListError::Element(error) => error,
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
    fn set_mutable(&mut self) {} // the derive rejects #[mutable] here
    fn check_monotone(&mut self) -> Result<(), Decrease> {
        Ok(()) // the derive rejects #[monotone] here
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
    fn integers_and_floats_convert_where_nothing_is_lost() {
        assert_eq!(read::<f32>(&ParamValue::Int(30)), Ok(30.0));
        assert_eq!(read::<i32>(&ParamValue::Float(-4.0)), Ok(-4));
        assert!(matches!(read::<i32>(&ParamValue::Float(0.5)), Err(ParamError::Type { .. })));
        assert!(matches!(read::<i32>(&ParamValue::Float(f64::NAN)), Err(ParamError::Type { .. })));
        assert!(matches!(read::<bool>(&ParamValue::Int(1)), Err(ParamError::Type { .. })));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let error = read::<u32>(&ParamValue::Int(-1)).expect_err("negative");
        assert_eq!(error.to_string(), "parameter `x` is u32, which cannot hold -1; it holds 0 to 4294967295");
        assert!(matches!(read::<i32>(&ParamValue::Int(1 << 31)), Err(ParamError::Range { .. })));
        assert!(matches!(read::<i32>(&ParamValue::Float(1e300)), Err(ParamError::Range { .. })));
        assert!(matches!(read::<f32>(&ParamValue::Float(1e39)), Err(ParamError::Range { .. })));
        assert_eq!(read::<f32>(&ParamValue::Float(f64::INFINITY)), Ok(f32::INFINITY));
    }

    #[test]
    fn errors_in_lists_name_the_element() {
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
    fn lists_are_nested_as_deep_as_the_rank() {
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
    fn values_round_trip() {
        let round = |text: &str, back: Option<ParamValue>| assert_eq!(back.expect("given").to_string(), text);
        let text = "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]";
        round(text, read::<Tensor3<i32>>(&json(text)).expect("even").to_value());
        round("[true, false, true]", read::<Tensor1<Bits>>(&json("[true, false, true]")).expect("even").to_value());
        round("0.25", read::<Tensor0<F8E4M3>>(&json("0.25")).expect("a number").to_value());
        let wide = read::<Tensor1<half::bf16>>(&json("[0.1]")).expect("a number").to_value().expect("given");
        assert_eq!(
            read::<Tensor1<half::bf16>>(&wide).expect("the same").to_value(),
            Some(wide),
            "rounding is idempotent"
        );
    }

    #[test]
    fn an_f32_is_written_in_its_shortest_form() {
        assert_eq!(0.1f32.to_value().expect("a scalar").to_string(), "0.1");
        assert_eq!(30f32.to_value().expect("a scalar").to_string(), "30");
        assert_eq!(1e30f32.to_value().expect("a scalar").to_string(), "1e30");
    }
}
