//! Captured tensors: tables that a variant reads by index.

use std::{ops::Index, sync::Arc};

use super::desc::Elem;

/// An element of a captured tensor. Sealed: f32, i32, u32.
#[diagnostic::on_unimplemented(
    message = "a captured tensor cannot have elements of type `{Self}`",
    label = "use f32, i32 or u32"
)]
pub trait TableElem: sealed::Sealed + bytemuck::Pod + PartialEq + Send + Sync {
    /// How descriptors name the type.
    const ELEM: Elem;
    /// What a table without elements gives: indexing never panics, and binding refuses such a table.
    #[doc(hidden)]
    fn zero() -> &'static Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! table_elem {
    ($($t:ty: $elem:ident),*) => {$(
        impl sealed::Sealed for $t {}
        impl TableElem for $t {
            const ELEM: Elem = Elem::$elem;
            fn zero() -> &'static Self {
                const ZERO: $t = 0 as $t;
                &ZERO
            }
        }
    )*};
}
table_elem!(f32: F32, i32: I32, u32: U32);

/// A captured tensor of rank 1: an owning handle, cheap to clone.
///
/// Indexed by `i32`; an index outside is clamped into the table, on either side alike, since edge tiles call hooks
/// out of range. The default is *unset*: filled from the parameter's `#[default]` when the variant is bound.
///
/// ```
/// # extern crate attn_core as attn;
/// use attn::lang::Tensor1;
/// let slopes = Tensor1::from(vec![0.5f32, 0.25]);
/// assert_eq!((slopes[-3], slopes[1], slopes[9]), (0.5, 0.25, 0.25));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor1<T> {
    data: Option<Arc<[T]>>,
    /// Filled from the default by a binding, not given: left out of expressions, made anew by the next binding.
    computed: bool,
}

/// A captured tensor of rank 2, row-major; indexed by `[[i, j]]`, each index clamped.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor2<T> {
    data: Option<Arc<[T]>>,
    shape: [i64; 2],
    computed: bool,
}

/// Values that do not fill a tensor's extents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len} values do not fill a tensor of shape {shape:?}; it takes rows * columns of them")]
pub struct TensorLenError {
    /// Values given.
    pub len: usize,
    /// Extents asked for.
    pub shape: [usize; 2],
}

impl<T> Default for Tensor1<T> {
    fn default() -> Self {
        Tensor1 { data: None, computed: false }
    }
}

impl<T> Default for Tensor2<T> {
    fn default() -> Self {
        Tensor2 { data: None, shape: [0, 0], computed: false }
    }
}

impl<T> From<Vec<T>> for Tensor1<T> {
    fn from(values: Vec<T>) -> Self {
        Tensor1 { data: Some(values.into()), computed: false }
    }
}

impl<T: Clone> From<&[T]> for Tensor1<T> {
    fn from(values: &[T]) -> Self {
        Tensor1 { data: Some(values.into()), computed: false }
    }
}

impl<T, const N: usize> From<[T; N]> for Tensor1<T> {
    fn from(values: [T; N]) -> Self {
        Tensor1 { data: Some(Arc::new(values)), computed: false }
    }
}

impl<T> FromIterator<T> for Tensor1<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Tensor1 { data: Some(values.into_iter().collect()), computed: false }
    }
}

impl<T> Tensor1<T> {
    /// Not given: to be filled from the parameter's default.
    #[must_use]
    pub fn unset() -> Self {
        Self::default()
    }
    /// Whether it holds values.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.data.is_some()
    }
    /// The values; none when unset.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self.data.as_deref().unwrap_or(&[])
    }
    /// Number of values; 0 when unset.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }
    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub(super) fn is_computed(&self) -> bool {
        self.computed
    }
    pub(super) fn computed(values: Vec<T>) -> Self {
        Tensor1 { data: Some(values.into()), computed: true }
    }
}

impl<T> Tensor2<T> {
    /// A table of `shape = [rows, columns]` from its values, row by row.
    pub fn new(values: Vec<T>, shape: [usize; 2]) -> Result<Self, TensorLenError> {
        let extents = [i64::try_from(shape[0]), i64::try_from(shape[1])];
        match extents {
            [Ok(rows), Ok(columns)] if shape[0].checked_mul(shape[1]) == Some(values.len()) => {
                Ok(Tensor2 { data: Some(values.into()), shape: [rows, columns], computed: false })
            }
            _ => Err(TensorLenError { len: values.len(), shape }),
        }
    }
    /// Not given: to be filled from the parameter's default.
    #[must_use]
    pub fn unset() -> Self {
        Self::default()
    }
    /// Whether it holds values.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.data.is_some()
    }
    /// The values, row by row; none when unset.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self.data.as_deref().unwrap_or(&[])
    }
    /// `[rows, columns]`; zeros when unset.
    #[must_use]
    pub fn shape(&self) -> [i64; 2] {
        self.shape
    }
    pub(super) fn is_computed(&self) -> bool {
        self.computed
    }
    pub(super) fn computed(values: Vec<T>, shape: [i64; 2]) -> Self {
        Tensor2 { data: Some(values.into()), shape, computed: true }
    }
}

/// An index clamped into `0..len`; `None` for an empty table.
fn clamped(index: i32, len: i64) -> Option<usize> {
    usize::try_from(i64::from(index).min(len - 1).max(0)).ok().filter(|_| len > 0)
}

impl<T: TableElem> Index<i32> for Tensor1<T> {
    type Output = T;
    fn index(&self, index: i32) -> &T {
        let values = self.as_slice();
        clamped(index, values.len() as i64).map_or(T::zero(), |i| &values[i])
    }
}

impl<T: TableElem> Index<[i32; 2]> for Tensor2<T> {
    type Output = T;
    fn index(&self, [i, j]: [i32; 2]) -> &T {
        let at = clamped(i, self.shape[0]).zip(clamped(j, self.shape[1]));
        at.and_then(|(i, j)| self.as_slice().get(i * self.shape[1] as usize + j)).unwrap_or(T::zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_clamped() {
        let t = Tensor1::from([10i32, 20, 30]);
        assert_eq!((t[i32::MIN], t[0], t[2], t[3], t[i32::MAX]), (10, 10, 30, 30, 30));
        let t = Tensor2::new((0..6u32).collect(), [2, 3]).expect("six values");
        assert_eq!((t[[-1, -1]], t[[1, 1]], t[[9, 0]], t[[0, 9]], t[[9, 9]]), (0, 4, 3, 2, 5));
    }

    #[test]
    fn an_empty_table_gives_zero() {
        assert_eq!(Tensor1::<f32>::unset()[3], 0.0);
        assert_eq!(Tensor1::<i32>::from(vec![])[0], 0);
        assert_eq!(Tensor2::<f32>::unset()[[1, 2]], 0.0);
        assert_eq!(Tensor2::<u32>::new(vec![], [0, 4]).expect("no values")[[0, 0]], 0);
    }

    #[test]
    fn extents_must_fit_the_values() {
        let error = Tensor2::new(vec![1.0f32; 5], [2, 3]).expect_err("five are not six");
        assert_eq!(error, TensorLenError { len: 5, shape: [2, 3] });
        assert!(Tensor2::new(vec![0u32; 0], [usize::MAX, 2]).is_err());
    }
}
