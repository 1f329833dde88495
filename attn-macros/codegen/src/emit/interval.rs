//! Interval analysis of integers. It shows where plain operators cannot overflow, and which array indices stay in
//! range.
//!
//! Coordinates are below 2^30 in magnitude: planning refuses longer batches.

use std::collections::HashMap;

use crate::ir::{Block, Expr, Kind, LocalId, Op};
use crate::types::{Ty, Types};
use crate::{budget, literals};

const MAX_COORDINATE: i64 = (1 << 30) - 1;

/// An interval of integers: least and greatest value, both inclusive.
type Interval = (i64, i64);

/// The intervals of the integers of a function.
pub(super) struct Intervals<'a> {
    types: &'a Types,
    /// Those of immutable locals.
    locals: HashMap<LocalId, Interval>,
}

impl<'a> Intervals<'a> {
    pub(super) fn new(types: &'a Types) -> Self {
        Intervals { types, locals: HashMap::new() }
    }

    pub(super) fn insert(&mut self, local: LocalId, interval: Interval) {
        self.locals.insert(local, interval);
    }

    /// The interval of an integer expression. Rust's arithmetic wraps, so a result that may overflow can be any value
    /// of its type.
    pub(super) fn of(&self, e: &Expr) -> Option<Interval> {
        if !budget::spend(1) {
            return None;
        }
        let whole = type_interval(&self.types.settled(&e.ty));
        let exact = self.exact_interval(e);
        match (exact, whole) {
            (Some(exact), Some(whole)) if within(exact, whole) => Some(exact),
            // the width of the type is unknown: the interval must hold for every width
            (Some(exact), None) if is_small(exact) => Some(exact),
            (_, whole) => whole,
        }
    }

    /// The interval without wrapping.
    fn exact_interval(&self, e: &Expr) -> Option<Interval> {
        let fixed = |n: i64| Some((n, n));
        match &e.kind {
            Kind::Int(n) => fixed(i64::try_from(*n).ok()?),
            Kind::Coordinate(..) if self.types.settled(&e.ty) == Ty::I32 => Some((-MAX_COORDINATE, MAX_COORDINATE)),
            Kind::Row(_, "dim", _) | Kind::Packed(_, "dim", _) => Some((0, 1 << 16)),
            Kind::Local(local) => self.locals.get(local).copied(),
            Kind::Neg(inner) => self.of(inner).and_then(|(low, high)| Some((high.checked_neg()?, low.checked_neg()?))),
            Kind::Cast(inner, _) if self.types.settled(&inner.ty) == Ty::Bool => Some((0, 1)),
            Kind::Cast(inner, _) if self.types.settled(&inner.ty) != Ty::F32 => self.of(inner),
            Kind::Binary(op, a, b) => self.operator_interval(*op, a, b),
            Kind::Call(name, args) => self.call_interval(name, args),
            Kind::If { then, other: Some(other), .. } => {
                Some(join(self.block_interval(then)?, self.block_interval(other)?))
            }
            Kind::Match { arms, .. } => {
                let mut all = arms.iter().map(|arm| self.block_interval(&arm.body));
                let first = all.next()??;
                all.try_fold(first, |a, b| Some(join(a, b?)))
            }
            Kind::Block(block) => self.block_interval(block),
            _ => None,
        }
    }

    /// The interval of a block that has no statements: locals of other blocks are not recorded yet.
    fn block_interval(&self, block: &Block) -> Option<Interval> {
        self.of(block.tail.as_ref().filter(|_| block.stmts.is_empty())?)
    }

    /// The interval of an operator's result, before it wraps.
    fn operator_interval(&self, op: Op, a: &Expr, b: &Expr) -> Option<Interval> {
        let (x, y) = (self.of(a), self.of(b));
        let magnitude = |(low, high): Interval| low.saturating_abs().max(high.saturating_abs());
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
                // division by 0 gives 0
                // the least i64 by -1 wraps
                _ => x.filter(|x| x.0 > i64::MIN).map(|x| (-magnitude(x), magnitude(x))),
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
            // one operand that is not negative clears the sign
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

    fn call_interval(&self, name: &str, args: &[Expr]) -> Option<Interval> {
        let arg = |i: usize| args.get(i).and_then(|e| self.of(e));
        match name {
            "min" => match (arg(0), arg(1)) {
                (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.min(b.1))),
                _ => None,
            },
            "max" => match (arg(0), arg(1)) {
                (Some(a), Some(b)) => Some((a.0.max(b.0), a.1.max(b.1))),
                _ => None,
            },
            // the result is inside the bounds, whatever the operand
            "clamp" => {
                let ((low, _), (_, high)) = (arg(1)?, arg(2)?);
                (low <= high).then_some((low, high))
            }
            "abs" => arg(0).and_then(|(low, high)| Some((0, low.checked_abs()?.max(high.checked_abs()?)))),
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

    /// Whether the result of an operator fits its type, so that it never wraps.
    pub(super) fn never_wraps(&self, op: Op, a: &Expr, b: &Expr) -> bool {
        let ty = self.types.settled(&a.ty);
        type_interval(&ty)
            .is_some_and(|whole| self.operator_interval(op, a, b).is_some_and(|range| within(range, whole)))
    }
}

/// All values of a type. An array index is an `int` in the text.
fn type_interval(ty: &Ty) -> Option<Interval> {
    Some(match ty {
        Ty::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Ty::U32 => (0, i64::from(u32::MAX)),
        Ty::U8 => (0, 255),
        Ty::I64 => (i64::MIN, i64::MAX),
        Ty::Usize => (0, i64::from(i32::MAX)),
        _ => return None,
    })
}

fn within((low, high): Interval, (least, most): Interval) -> bool {
    least <= low && high <= most
}

/// Whether an interval fits every integer type.
fn is_small(range: Interval) -> bool {
    within(range, (0, 255))
}

fn join(a: Interval, b: Interval) -> Interval {
    (a.0.min(b.0), a.1.max(b.1))
}

fn shift(e: &Expr) -> Option<u32> {
    match e.kind {
        Kind::Int(n) if n < 63 => u32::try_from(n).ok(),
        _ => None,
    }
}

/// The value of a literal.
fn literal(e: &Expr) -> Option<i64> {
    match &e.kind {
        Kind::Int(n) => i64::try_from(*n).ok(),
        Kind::Neg(inner) if literals::is_made_of_literals(inner) => literal(inner).map(|n| -n),
        _ => None,
    }
}

/// Whether it is a literal above 0.
pub(super) fn positive(e: &Expr) -> bool {
    matches!(e.kind, Kind::Int(n) if n > 0)
}
