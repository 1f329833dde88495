//! Parameter tensors, which hooks read by index.

use std::fmt;
use std::ops::Index;
use std::sync::{Arc, OnceLock};

use super::bounds::{self, ElementBounds, IndexBox, MinMax};
use super::element::ParamElement;
use super::flat_index::flat_index;
use super::len_error::TensorLenError;
use crate::lang::desc::Elem;
use crate::lang::interval::IntervalOf;
use crate::lang::scalar::Scalar as _;

/// A parameter tensor: a shared handle of row-major elements, cheap to clone. RANK is 0 to 4.
///
/// A hook reads it as `self.table.get()` (rank 0), `self.table[i]` (rank 1), `self.table[[i, j]]` and so on. Indices
/// are `i32` and clamped into the extents, on CPU and GPU alike, since edge tiles call hooks out of range. Elements of
/// 16 and 8 bits are read as f32, [`Bits`](super::Bits) as bool. The default value is *unset*: binding fills it from
/// the parameter's `#[default]`.
///
/// ```
/// # extern crate attn_core as attn;
/// use attn::lang::{Tensor1, Tensor2};
/// let slopes = Tensor1::from(vec![0.5f32, 0.25]);
/// assert_eq!((slopes[-3], slopes[1], slopes[9]), (0.5, 0.25, 0.25));
/// let bias = Tensor2::<half::f16>::from_values(vec![0.0, 1.0, 2.0, 3.0], [2, 2])?;
/// assert_eq!(bias[[1, 0]], 2.0);
/// # Ok::<(), attn::lang::param_tensor::TensorLenError>(())
/// ```
pub struct Tensor<T, const RANK: usize> {
    data: Option<Arc<TensorData<T>>>,
    shape: [i64; RANK],
    /// Whether binding filled the tensor from its default. Expressions then omit it, and the next binding fills it
    /// again.
    computed: bool,
    /// Binding has checked `#[monotone]`.
    monotone: bool,
    /// The field is `#[mutable]`: bounds hold for any values.
    mutable: bool,
}

/// The elements, and values derived from them once.
struct TensorData<T> {
    stored: Vec<T>,
    decoded: Vec<f32>,
    first_decrease: OnceLock<Option<usize>>,
    whole: OnceLock<MinMax>,
    blocks: OnceLock<Vec<MinMax>>,
}

/// A tensor of rank 0: one value.
pub type Tensor0<T> = Tensor<T, 0>;
/// A tensor of rank 1.
pub type Tensor1<T> = Tensor<T, 1>;
/// A tensor of rank 2: rows and columns.
pub type Tensor2<T> = Tensor<T, 2>;
/// A tensor of rank 3.
pub type Tensor3<T> = Tensor<T, 3>;
/// A tensor of rank 4.
pub type Tensor4<T> = Tensor<T, 4>;

impl<T: ParamElement, const RANK: usize> Tensor<T, RANK> {
    /// Makes a tensor from its elements, row-major.
    ///
    /// # Errors
    /// The number of elements does not fit the shape (of [`Bits`](super::Bits): one for every eight bools).
    pub fn new(values: Vec<T>, shape: [usize; RANK]) -> Result<Self, TensorLenError> {
        Self::of(values, shape, |n| n.div_ceil(T::PACKED))
    }

    /// Makes a tensor from the values that indices give, each rounded to the nearest element (ties to even).
    ///
    /// # Errors
    /// The number of values does not fit the shape.
    pub fn from_values(values: Vec<T::Value>, shape: [usize; RANK]) -> Result<Self, TensorLenError> {
        let (len, packed) = (values.len(), T::encode(values));
        // the error gives lengths in values
        Self::of(packed, shape, |n| n.div_ceil(T::PACKED))
            .ok()
            .filter(|_| product(shape) == Some(len))
            .ok_or_else(|| TensorLenError { len, shape: shape.to_vec(), want: product(shape) })
    }

    fn of(values: Vec<T>, shape: [usize; RANK], stored: impl Fn(usize) -> usize) -> Result<Self, TensorLenError> {
        let want = product(shape).map(stored);
        if want != Some(values.len()) {
            return Err(TensorLenError { len: values.len(), shape: shape.to_vec(), want });
        }
        Ok(Self::from_parts(values, shape.map(|n| n as i64), false))
    }

    /// `values` fill `shape`.
    pub(super) fn from_parts(stored: Vec<T>, shape: [i64; RANK], computed: bool) -> Self {
        let decoded = T::decode(&stored);
        let (first_decrease, whole, blocks) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let data = TensorData { stored, decoded, first_decrease, whole, blocks };
        Tensor { data: Some(Arc::new(data)), shape, computed, monotone: false, mutable: false }
    }

    /// An unset tensor, which binding fills from the parameter's default.
    #[must_use]
    pub fn unset() -> Self {
        Self::default()
    }
    /// Whether it holds values.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.data.is_some()
    }
    /// The elements, row-major; empty when unset.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self.data.as_deref().map_or(&[], |data| &data.stored)
    }
    /// The shape; zeros when unset.
    #[must_use]
    pub fn shape(&self) -> [i64; RANK] {
        self.shape
    }
    /// Number of values; 0 when unset.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.is_set() { self.shape.iter().product::<i64>() as usize } else { 0 }
    }
    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The values that indices give, row-major.
    pub fn values(&self) -> impl ExactSizeIterator<Item = T::Value> {
        (0..self.len()).map(|i| *self.at(Some(i)))
    }

    pub(in crate::lang) fn is_computed(&self) -> bool {
        self.computed
    }
    /// A tensor that binding fills from a default. The number of values fits the shape.
    pub(in crate::lang) fn computed(values: Vec<T::Value>, shape: [i64; RANK]) -> Self {
        Self::from_parts(T::encode(values), shape, true)
    }
    /// Offset of the first value that is less than the one before it in its row, or not comparable with it.
    pub(in crate::lang) fn first_decrease(&self) -> Option<usize> {
        let row = self.shape.last().map_or(1, |&n| n as usize);
        let find = |data: &Arc<TensorData<T>>| {
            let value = |i| *T::value(&data.stored, &data.decoded, i);
            let rises = |i: usize| i.is_multiple_of(row) || value(i - 1) <= value(i);
            (0..self.len()).find(|&i| !rises(i))
        };
        self.data.as_ref().and_then(|data| *data.first_decrease.get_or_init(|| find(data)))
    }

    /// Notes that binding has checked `#[monotone]`.
    pub(in crate::lang) fn set_monotone(&mut self) {
        self.monotone = true;
    }

    /// Notes that the values change while plans live on.
    pub(in crate::lang) fn note_mutable(&mut self) {
        self.mutable = true;
    }

    /// The bounds of any values of 32 bits, of narrower types too: queries visit no elements then.
    fn any(&self) -> MinMax {
        match T::ELEM {
            Elem::I32 => [i32::MIN.cast_unsigned(), i32::MAX.cast_unsigned()],
            _ => [0, u32::MAX],
        }
    }

    /// An integer or bool element by its offset; 0 if there is none.
    fn integer(&self, index: i64) -> i64 {
        self.at(usize::try_from(index).ok().filter(|_| !self.is_empty())).integer().unwrap_or(0)
    }

    /// The value at an offset, which must be within the tensor.
    #[inline]
    fn at(&self, index: Option<usize>) -> &T::Value {
        match (&self.data, index) {
            (Some(data), Some(i)) => T::value(&data.stored, &data.decoded, i),
            _ => T::zero(),
        }
    }
}

impl<T: ParamElement, const RANK: usize> ElementBounds for Tensor<T, RANK> {
    fn whole(&self) -> MinMax {
        if self.mutable && !T::ELEM.is_float() {
            return self.any();
        }
        let whole = || bounds::whole(self.len() as i64, |index| self.integer(index));
        self.data.as_ref().filter(|_| !T::ELEM.is_float()).map_or([0, 0], |data| *data.whole.get_or_init(whole))
    }
    fn blocks(&self) -> &[MinMax] {
        if T::ELEM.is_float() || self.monotone || self.mutable || self.is_empty() {
            return &[];
        }
        let blocks = || bounds::blocks(RANK, bounds::four(&self.shape, 1), |index| self.integer(index));
        self.data.as_ref().map_or(&[], |data| data.blocks.get_or_init(blocks))
    }
}

impl<T: ParamElement, const RANK: usize> IntervalOf for Tensor<T, RANK> {
    fn elem(&self) -> Elem {
        T::ELEM
    }
    fn interval_of(&self, lo: &[i64], hi: &[i64]) -> Option<(i64, i64)> {
        if T::ELEM.is_float() || self.mutable {
            return None;
        }
        let wide =
            if T::ELEM == Elem::I32 { |word: u32| i64::from(word.cast_signed()) } else { |word: u32| i64::from(word) };
        if self.is_empty() {
            return Some(self.whole().map(wide).into());
        }
        if RANK == 1 && self.monotone {
            // fast path: the planner asks this for every tile
            let last = self.shape[0] - 1;
            let end = |index: &[i64]| self.integer(index.first().map_or(last, |&i| i.clamp(0, last)));
            let (a, b) = (end(lo), end(hi));
            return Some((a.min(b), a.max(b)));
        }
        let inside = |index: &[i64]| {
            let clamped: [i64; RANK] = std::array::from_fn(|axis| {
                let last = self.shape[axis] - 1;
                index.get(axis).copied().unwrap_or(last).clamp(0, last)
            });
            bounds::four(&clamped, 0).map(|i| i as i32)
        };
        let blocks = (!self.monotone).then(|| self.blocks());
        let tensor = bounds::Bounded { value: |at| self.integer(at), wide, whole: || self.whole(), blocks };
        let extent = bounds::four(&self.shape, 1).map(|n| n as i32);
        let found = bounds::min_max_of(&tensor, RANK as i32, IndexBox { lo: inside(lo), hi: inside(hi), extent });
        Some((found.lo, found.hi))
    }
}

/// The number of elements of a shape; `None` if an extent is not a valid index.
fn product<const RANK: usize>(shape: [usize; RANK]) -> Option<usize> {
    let fits = shape.iter().all(|&n| i32::try_from(n).is_ok());
    shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n)).filter(|_| fits)
}

impl<T: ParamElement> Tensor<T, 0> {
    /// The value; 0 when unset.
    #[must_use]
    pub fn get(&self) -> T::Value {
        *self.at(Some(0))
    }
}

impl<T: ParamElement> Index<i32> for Tensor<T, 1> {
    type Output = T::Value;
    #[inline]
    fn index(&self, i: i32) -> &T::Value {
        self.at(flat_index([i], &self.shape))
    }
}

macro_rules! by_indices {
    ($($rank:literal),*) => {$(
        impl<T: ParamElement> Index<[i32; $rank]> for Tensor<T, $rank> {
            type Output = T::Value;
            #[inline]
            fn index(&self, at: [i32; $rank]) -> &T::Value {
                self.at(flat_index(at, &self.shape))
            }
        }
    )*};
}
by_indices!(2, 3, 4);

impl<T, const RANK: usize> Default for Tensor<T, RANK> {
    fn default() -> Self {
        Tensor { data: None, shape: [0; RANK], computed: false, monotone: false, mutable: false }
    }
}

impl<T, const RANK: usize> Clone for Tensor<T, RANK> {
    fn clone(&self) -> Self {
        Tensor { data: self.data.clone(), ..*self }
    }
}

/// Equal tensors have the same shape and elements, or both are unset.
impl<T: ParamElement, const RANK: usize> PartialEq for Tensor<T, RANK> {
    fn eq(&self, other: &Self) -> bool {
        (self.is_set(), self.shape, self.as_slice()) == (other.is_set(), other.shape, other.as_slice())
    }
}

impl<T: ParamElement, const RANK: usize> fmt::Debug for Tensor<T, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_set() {
            return f.write_str("unset");
        }
        write!(f, "{:?} of {:?}", self.as_slice(), self.shape)
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::super::{Bits, F8E4M3, F8E5M2};
    use super::*;

    #[test]
    fn indices_are_clamped() {
        let t = Tensor1::from([10i32, 20, 30]);
        assert_eq!((t[i32::MIN], t[0], t[2], t[3], t[i32::MAX]), (10, 10, 30, 30, 30));
        let t = Tensor2::new((0..6u32).collect(), [2, 3]).expect("six values");
        assert_eq!((t[[-1, -1]], t[[1, 1]], t[[9, 0]], t[[0, 9]], t[[9, 9]]), (0, 4, 3, 2, 5));
        let t = Tensor3::new((0..24u8).collect(), [2, 3, 4]).expect("24 values");
        assert_eq!((t[[0, 2, 1]], t[[1, 0, 3]], t[[-5, 7, 2]], t[[9, 9, 9]]), (9, 15, 10, 23));
        let t = Tensor4::new((0..120i32).collect(), [2, 3, 4, 5]).expect("120 values");
        assert_eq!((t[[1, 2, 3, 4]], t[[1, 0, 2, -1]], t[[i32::MIN, 1, 99, 2]]), (119, 70, 37));
        assert_eq!(Tensor0::from(2.5f32).get(), 2.5);
    }

    #[test]
    fn an_empty_tensor_gives_zero() {
        assert_eq!(Tensor1::<f32>::unset()[3], 0.0);
        assert_eq!(Tensor1::<i32>::from(vec![])[0], 0);
        assert_eq!(Tensor2::<f32>::unset()[[1, 2]], 0.0);
        assert_eq!(Tensor2::<u32>::new(vec![], [0, 4]).expect("no values")[[0, 0]], 0);
        assert_eq!(Tensor3::<f16>::new(vec![], [4, 0, 4]).expect("no values")[[3, 3, 3]], 0.0);
        assert_eq!((Tensor0::<i32>::unset().get(), Tensor0::<i32>::unset().len()), (0, 0));
        assert!(!Tensor2::<Bits>::unset()[[1, 1]]);
    }

    #[test]
    fn lengths_must_fit_the_shape() {
        let error = Tensor2::new(vec![1.0f32; 5], [2, 3]).expect_err("five are not six");
        assert_eq!(error, TensorLenError { len: 5, shape: vec![2, 3], want: Some(6) });
        assert_eq!(error.to_string(), "5 values do not fill a tensor of shape [2, 3]; it takes 6 of them");
        assert!(Tensor2::new(vec![0u32; 0], [usize::MAX, 2]).is_err());
        let error = Tensor1::new(vec![0u32; 0], [1 << 31]).expect_err("no index gets there");
        assert_eq!(error.want, None);
        assert_eq!(error.to_string(), "0 values do not fill a tensor of shape [2147483648]; its extents are too large");
        assert!(Tensor2::<f16>::from_values(vec![0.0; 5], [2, 3]).is_err());
        assert_eq!(Tensor2::<Bits>::from_values(vec![true; 6], [2, 4]).expect_err("six").want, Some(8));
    }

    #[test]
    fn narrow_floats_are_read_as_f32() {
        let values = vec![0.1, -1e-7, 300.0, 0.0];
        let rounded = |t: &dyn Fn(i32) -> f32| [0, 1, 2, 3].map(t);
        let t = Tensor1::<f16>::from_values(values.clone(), [4]).expect("four");
        assert_eq!(rounded(&|i| t[i]), [0.1, -1e-7, 300.0, 0.0].map(|x| f16::from_f32(x).to_f32()));
        let t = Tensor1::<bf16>::from_values(values.clone(), [4]).expect("four");
        assert_eq!(rounded(&|i| t[i]), [0.1, -1e-7, 300.0, 0.0].map(|x| bf16::from_f32(x).to_f32()));
        let t = Tensor1::<F8E4M3>::from_values(values.clone(), [4]).expect("four");
        assert_eq!(rounded(&|i| t[i]), [0.1015625, -0.0, 288.0, 0.0]);
        let t = Tensor1::<F8E5M2>::from_values(values, [4]).expect("four");
        assert_eq!(rounded(&|i| t[i]), [0.09375, -0.0, 320.0, 0.0]);
    }

    #[test]
    fn bits_are_packed_without_gaps() {
        let bools: Vec<bool> = (0..15).map(|i| i % 3 == 0).collect();
        let t = Tensor2::<Bits>::from_values(bools.clone(), [3, 5]).expect("fifteen");
        assert_eq!(t.as_slice(), [Bits(0b0100_1001), Bits(0b0001_0010)]);
        for (i, want) in bools.into_iter().enumerate() {
            assert_eq!(t[[i as i32 / 5, i as i32 % 5]], want, "{i}");
        }
        assert_eq!(Tensor1::from([Bits(0x80)]).len(), 8);
        assert_eq!(Tensor1::new(vec![Bits(0xff)], [3]).expect("a byte").values().collect::<Vec<_>>(), [true; 3]);
    }

    #[test]
    fn the_first_decrease_of_a_row_is_found() {
        assert_eq!(Tensor1::from([1, 1, 2, 9]).first_decrease(), None);
        assert_eq!(Tensor1::from([1, 3, 2, 0]).first_decrease(), Some(2));
        assert_eq!(Tensor1::from([1.0, f32::NAN]).first_decrease(), Some(1));
        let rows = Tensor2::new(vec![5, 6, 1, 1, 2, 1], [3, 2]).expect("six");
        assert_eq!(rows.first_decrease(), Some(5), "a row begins anew");
        assert_eq!(Tensor1::<i32>::unset().first_decrease(), None);
    }
}
