//! Elements of parameter tensors: the interval of all elements in a box of indices.

use super::Val;
use super::functions::{IntType, Interval, between};
use crate::lang::{Tristate, desc::Elem};

/// A parameter tensor whose elements a mask may read.
pub trait IntervalOf {
    /// Type of the elements.
    fn elem(&self) -> Elem;
    /// The least and greatest element with indices in `lo..=hi`. Indices are clamped into the tensor, as in an access.
    /// Bools and bits count as 0 and 1. `None` where no bounds are known.
    fn interval_of(&self, lo: &[i64], hi: &[i64]) -> Option<(i64, i64)>;
}

/// `table[indices]`.
pub fn element(table: &impl IntervalOf, indices: &[Val]) -> Val {
    let (mut lo, mut hi) = ([0; 4], [0; 4]);
    for ((lo, hi), index) in lo.iter_mut().zip(&mut hi).zip(indices) {
        (*lo, *hi) = match index {
            Val::I32(index) => (index.lo.into(), index.hi.into()),
            _ => (i32::MIN.into(), i32::MAX.into()),
        };
    }
    let rank = indices.len().min(4);
    let range = table.interval_of(&lo[..rank], &hi[..rank]);
    match table.elem() {
        Elem::I32 => int::<i32>(range),
        Elem::U32 => int::<u32>(range),
        Elem::U8 => int::<u8>(range),
        Elem::Bool | Elem::Bits => Val::Bool(match range {
            Some((0, 0)) => Tristate::False,
            Some((1, _)) => Tristate::True,
            _ => Tristate::Unknown,
        }),
        _ => Val::Any,
    }
}

fn int<T: IntType>(range: Option<(i64, i64)>) -> Val
where
    Val: From<Interval<T>>,
{
    let (lo, hi) = range.unwrap_or((T::LEAST, T::MOST));
    between::<T>(lo, hi).into()
}
