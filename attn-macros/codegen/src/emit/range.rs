//! How small and how large an integer can be, so that plain operators are written where nothing can overflow, and indices
//! of arrays are shown to stay inside.
//!
//! Index words are below 2^30 in magnitude: batches that are longer are refused.

use super::Writer;
use crate::{
    ir::{Block, Expr, Kind, Op},
    literals,
    types::Ty,
};

const WORD: i64 = (1 << 30) - 1;

/// Least and greatest value, both inclusive.
pub(super) type Range = (i64, i64);

impl Writer<'_> {
    /// Where an integer expression lies. Arithmetic of Rust wraps: a result that may do so can be anything of its type.
    pub(super) fn range(&self, e: &Expr) -> Option<Range> {
        let whole = whole(&self.settled(&e.ty));
        let exact = self.unwrapped(e);
        match (exact, whole) {
            (Some(exact), Some(whole)) if within(exact, whole) => Some(exact),
            // not seen: an answer is one for every width
            (Some(exact), None) if is_small(exact) => Some(exact),
            (_, whole) => whole,
        }
    }

    /// As if integers had no end.
    fn unwrapped(&self, e: &Expr) -> Option<Range> {
        let fixed = |n: i64| Some((n, n));
        match &e.kind {
            Kind::Int(n) => fixed(i64::try_from(*n).ok()?),
            Kind::Word(..) if self.settled(&e.ty) == Ty::I32 => Some((-WORD, WORD)),
            Kind::Row(_, "dim", _) => Some((0, 1 << 16)),
            Kind::Local(local) => self.ranges.get(local).copied(),
            Kind::Neg(inner) => self.range(inner).map(|(low, high)| (-high, -low)),
            Kind::Cast(inner, _) if self.settled(&inner.ty) == Ty::Bool => Some((0, 1)),
            Kind::Cast(inner, _) if self.settled(&inner.ty) != Ty::F32 => self.range(inner),
            Kind::Binary(op, a, b) => self.result(*op, a, b),
            Kind::Call(name, args) => self.call_range(name, args),
            Kind::If { then, other: Some(other), .. } => Some(join(self.tail_range(then)?, self.tail_range(other)?)),
            Kind::Match { arms, .. } => {
                let mut all = arms.iter().map(|arm| self.tail_range(&arm.body));
                let first = all.next()??;
                all.try_fold(first, |a, b| Some(join(a, b?)))
            }
            Kind::Block(block) => self.tail_range(block),
            _ => None,
        }
    }

    /// Only where the value is all of the block: what else is in it was not read yet.
    fn tail_range(&self, block: &Block) -> Option<Range> {
        self.range(block.tail.as_ref().filter(|_| block.stmts.is_empty())?)
    }

    /// The result of an operator, before it wraps.
    pub(super) fn result(&self, op: Op, a: &Expr, b: &Expr) -> Option<Range> {
        let (x, y) = (self.range(a), self.range(b));
        let magnitude = |(low, high): Range| low.abs().max(high.abs());
        match op {
            Op::Add => Some((x?.0.checked_add(y?.0)?, x?.1.checked_add(y?.1)?)),
            Op::Sub => Some((x?.0.checked_sub(y?.1)?, x?.1.checked_sub(y?.0)?)),
            Op::Mul => {
                let ((a, b), (c, d)) = (x?, y?);
                let products = [a.checked_mul(c)?, a.checked_mul(d)?, b.checked_mul(c)?, b.checked_mul(d)?];
                Some((*products.iter().min()?, *products.iter().max()?))
            }
            Op::Div => match y {
                Some((n, m)) if n == m && n > 0 => Some((x?.0 / n, x?.1 / n)),
                // by 0 it is 0
                _ => x.map(|x| (-magnitude(x), magnitude(x))),
            },
            Op::Rem => {
                let most = match y {
                    Some((n, m)) if n == m && n != 0 => Some(n.abs() - 1),
                    _ => None,
                };
                let most = [most, x.map(magnitude)].into_iter().flatten().min()?;
                let negative = x.is_none_or(|(low, _)| low < 0);
                Some((if negative { -most } else { 0 }, most))
            }
            // one side that is not negative clears the sign
            Op::And => {
                let most = [x, y].into_iter().flatten().filter(|(low, _)| *low >= 0).map(|(_, high)| high).min()?;
                Some((0, most))
            }
            Op::Or | Op::Xor => {
                let ((a, b), (c, d)) = (x?, y?);
                let bits = 64 - (b | d).leading_zeros();
                (a >= 0 && c >= 0 && bits < 63).then(|| (0, (1 << bits) - 1))
            }
            Op::Shl => {
                let (by, (low, high)) = (shift(b)?, x?);
                Some((low.checked_mul(1 << by)?, high.checked_mul(1 << by)?))
            }
            Op::Shr => {
                let (by, (low, high)) = (shift(b)?, x?);
                Some((low >> by, high >> by))
            }
            _ => None,
        }
    }

    fn call_range(&self, name: &str, args: &[Expr]) -> Option<Range> {
        let arg = |i: usize| args.get(i).and_then(|e| self.range(e));
        match name {
            "min" => match (arg(0), arg(1)) {
                (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.min(b.1))),
                _ => None,
            },
            "max" => match (arg(0), arg(1)) {
                (Some(a), Some(b)) => Some((a.0.max(b.0), a.1.max(b.1))),
                _ => None,
            },
            // outside of the bounds lies nothing, whatever the number
            "clamp" => {
                let ((low, _), (_, high)) = (arg(1)?, arg(2)?);
                (low <= high).then_some((low, high))
            }
            "abs" => arg(0).map(|(low, high)| (0, low.abs().max(high.abs()))),
            "rem_euclid" => match literal(&args[1]) {
                Some(n) if n != 0 => Some((0, n.abs() - 1)),
                _ => None,
            },
            "count_ones" | "leading_zeros" | "trailing_zeros" | "count_zeros" | "leading_ones" | "trailing_ones" => {
                Some((0, 64))
            }
            _ => None,
        }
    }

    /// Whether the operator gives what it would give without an end of integers.
    pub(super) fn never_wraps(&self, op: Op, a: &Expr, b: &Expr) -> bool {
        let ty = self.settled(&a.ty);
        whole(&ty).is_some_and(|whole| self.result(op, a, b).is_some_and(|range| within(range, whole)))
    }
}

/// All values of a type. An index of an array is an `int` in the text.
fn whole(ty: &Ty) -> Option<Range> {
    Some(match ty {
        Ty::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Ty::U32 => (0, i64::from(u32::MAX)),
        Ty::U8 => (0, 255),
        Ty::Usize => (0, i64::from(i32::MAX)),
        _ => return None,
    })
}

fn within((low, high): Range, (least, most): Range) -> bool {
    least <= low && high <= most
}

/// Fits every integer type.
fn is_small(range: Range) -> bool {
    within(range, (0, 255))
}

fn join(a: Range, b: Range) -> Range {
    (a.0.min(b.0), a.1.max(b.1))
}

fn shift(e: &Expr) -> Option<u32> {
    match e.kind {
        Kind::Int(n) if n < 32 => u32::try_from(n).ok(),
        _ => None,
    }
}

/// A number as written.
fn literal(e: &Expr) -> Option<i64> {
    match &e.kind {
        Kind::Int(n) => i64::try_from(*n).ok(),
        Kind::Neg(inner) if literals::is_literal(inner) => literal(inner).map(|n| -n),
        _ => None,
    }
}

/// A literal that can be divided by.
pub(super) fn positive(e: &Expr) -> bool {
    matches!(e.kind, Kind::Int(n) if n > 0)
}
