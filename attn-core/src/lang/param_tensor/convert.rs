//! Conversions of values and lists to parameter tensors.

use super::element::ParamElement;
use super::tensor::Tensor;

impl<T: ParamElement> From<T> for Tensor<T, 0> {
    fn from(value: T) -> Self {
        Self::from_parts(vec![value], [], false)
    }
}

/// A tensor of as many elements as there are values (of [`Bits`](super::Bits): eight times as many; see [`Tensor::new`]
/// for other lengths).
impl<T: ParamElement> From<Vec<T>> for Tensor<T, 1> {
    fn from(values: Vec<T>) -> Self {
        let len = values.len() * T::PACKED;
        Self::from_parts(values, [len as i64], false)
    }
}

impl<T: ParamElement> From<&[T]> for Tensor<T, 1> {
    fn from(values: &[T]) -> Self {
        values.to_vec().into()
    }
}

impl<T: ParamElement, const N: usize> From<[T; N]> for Tensor<T, 1> {
    fn from(values: [T; N]) -> Self {
        Vec::from(values).into()
    }
}

impl<T: ParamElement> FromIterator<T> for Tensor<T, 1> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        values.into_iter().collect::<Vec<T>>().into()
    }
}
