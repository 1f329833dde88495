//! How large an integer can be, so that plain operators are written where nothing can overflow.
//!
//! Index words are below 2^30 in magnitude: batches that are longer are refused.

use super::Writer;
use crate::{
    ir::{Expr, Kind, Op},
    types::Ty,
};

const WORD: u64 = (1 << 30) - 1;

impl Writer<'_> {
    /// The largest magnitude of an i32 expression, where it is known.
    pub(super) fn bound(&self, e: &Expr) -> Option<u64> {
        match &e.kind {
            Kind::Int(n) => fits(*n),
            Kind::Word(..) if self.settled(&e.ty) == Ty::I32 => Some(WORD),
            Kind::Row(_, "dim", _) => Some(1 << 16),
            Kind::Local(local) => self.bounds.get(local).copied(),
            Kind::Neg(e) => fits(self.bound(e)?),
            Kind::Cast(e, to) if *to == Ty::I32 => match self.settled(&e.ty) {
                Ty::Bool => Some(1),
                Ty::U8 => Some(255),
                Ty::I32 => self.bound(e),
                _ => None,
            },
            Kind::Binary(Op::Add | Op::Sub, a, b) => fits(self.bound(a)?.checked_add(self.bound(b)?)?),
            Kind::Binary(Op::Mul, a, b) => fits(self.bound(a)?.checked_mul(self.bound(b)?)?),
            // by -1 too: what has a bound can be negated; by 0 it is 0
            Kind::Binary(Op::Div, a, _) => self.bound(a),
            Kind::Binary(Op::Rem, a, b) => match b.kind {
                Kind::Int(n) if n > 0 => Some(n - 1),
                _ => self.bound(a),
            },
            Kind::Call("min" | "max", args) => Some(self.bound(&args[0])?.max(self.bound(&args[1])?)),
            Kind::Call("abs", args) => fits(self.bound(&args[0])?),
            _ => None,
        }
    }
}

/// A wrapped result has no bound.
fn fits(n: u64) -> Option<u64> {
    (n <= i32::MAX as u64).then_some(n)
}

/// A literal that can be divided by.
pub(super) fn positive(e: &Expr) -> bool {
    matches!(e.kind, Kind::Int(n) if n > 0)
}
