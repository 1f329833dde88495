//! Captured tensors: the least and the greatest element of a box of indices.

use super::{
    Val,
    ints::{IntType, Ints},
};
use crate::lang::{Tri, desc::Elem};

/// A captured tensor that a mask may read.
pub trait RangeOf {
    /// Type of the elements.
    fn elem(&self) -> Elem;
    /// The least and the greatest element with indices from `lo` to `hi`, inclusive; indices outside are clamped into the
    /// tensor, as an index of one element is. Bools and bits are 0 and 1. `None` where nothing is known.
    fn range_of(&self, lo: &[i64], hi: &[i64]) -> Option<(i64, i64)>;
}

/// `table[indices]`.
#[must_use]
pub fn element(table: &impl RangeOf, indices: &[Val]) -> Val {
    let (mut lo, mut hi) = ([0; 4], [0; 4]);
    for ((lo, hi), index) in lo.iter_mut().zip(&mut hi).zip(indices) {
        (*lo, *hi) = match index {
            Val::Int(index) => (index.lo, index.hi),
            _ => (IntType::I32.min(), IntType::I32.max()),
        };
    }
    let rank = indices.len().min(4);
    let range = table.range_of(&lo[..rank], &hi[..rank]);
    let ints = |ty: IntType| {
        let (lo, hi) = range.unwrap_or((ty.min(), ty.max()));
        Val::Int(Ints::new(ty, lo, hi))
    };
    match table.elem() {
        Elem::I32 => ints(IntType::I32),
        Elem::U32 => ints(IntType::U32),
        Elem::U8 => ints(IntType::U8),
        Elem::Bool | Elem::Bits => Val::Bool(match range {
            Some((0, 0)) => Tri::False,
            Some((1, _)) => Tri::True,
            _ => Tri::Unknown,
        }),
        _ => Val::Any,
    }
}
