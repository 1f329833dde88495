//! Elements of parameter tensors: the interval of all elements in a box of indices.

use super::{
    Val,
    integer::{IntType, Interval},
};
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
#[must_use]
pub fn element(table: &impl IntervalOf, indices: &[Val]) -> Val {
    let (mut lo, mut hi) = ([0; 4], [0; 4]);
    for ((lo, hi), index) in lo.iter_mut().zip(&mut hi).zip(indices) {
        (*lo, *hi) = match index {
            Val::Int(index) => (index.lo, index.hi),
            _ => (IntType::I32.min(), IntType::I32.max()),
        };
    }
    let rank = indices.len().min(4);
    let range = table.interval_of(&lo[..rank], &hi[..rank]);
    let ints = |ty: IntType| {
        let (lo, hi) = range.unwrap_or((ty.min(), ty.max()));
        Val::Int(Interval::new(ty, lo, hi))
    };
    match table.elem() {
        Elem::I32 => ints(IntType::I32),
        Elem::U32 => ints(IntType::U32),
        Elem::U8 => ints(IntType::U8),
        Elem::Bool | Elem::Bits => Val::Bool(match range {
            Some((0, 0)) => Tristate::False,
            Some((1, _)) => Tristate::True,
            _ => Tristate::Unknown,
        }),
        _ => Val::Any,
    }
}
