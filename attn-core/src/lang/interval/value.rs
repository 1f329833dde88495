//! Abstract values: what an expression may be over a tile.

use super::{
    super::Tristate,
    integer::{IntType, Interval},
};

/// The set of values that an expression takes in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Val {
    /// An integer.
    Int(Interval),
    /// A bool.
    Bool(Tristate),
    /// Unknown: a float, or an expression that is not tracked.
    Any,
}

/// A Rust value as an abstract value.
pub trait Abstract {
    /// The abstract value that contains only this value.
    fn value(self) -> Val;
}

macro_rules! ints {
    ($($t:ty: $ty:ident),*) => {$(
        impl Abstract for $t {
            fn value(self) -> Val {
                Val::Int(Interval::new(IntType::$ty, i64::from(self), i64::from(self)))
            }
        }
    )*};
}
ints!(i32: I32, u32: U32, u8: U8);

macro_rules! any {
    ($($t:ty),*) => {$(
        impl Abstract for $t {
            fn value(self) -> Val {
                Val::Any
            }
        }
    )*};
}
any!(f32, u64, i64);

impl Abstract for bool {
    fn value(self) -> Val {
        Val::Bool(if self { Tristate::True } else { Tristate::False })
    }
}

/// The abstract value of a parameter, a constant or a literal.
#[inline]
#[must_use]
pub fn of(value: impl Abstract) -> Val {
    value.value()
}

/// A coordinate between the bounds of a tile.
#[inline]
#[must_use]
pub fn coordinate(min: i32, max: i32) -> Val {
    Val::Int(Interval::new(IntType::I32, min.into(), max.into()))
}

/// The bounds of a coordinate.
#[must_use]
pub fn coordinate_bounds(value: Val) -> (i32, i32) {
    match value {
        Val::Int(Interval { ty: IntType::I32, lo, hi, .. }) => (lo as i32, hi as i32),
        _ => (i32::MIN, i32::MAX),
    }
}

/// The result of a mask.
#[inline]
#[must_use]
pub fn tristate(value: Val) -> Tristate {
    match value {
        Val::Bool(known) => known,
        _ => Tristate::Unknown,
    }
}

/// Brings two operands to one type. Rust has checked the types, so if they differ, one is an untyped integer literal.
#[inline(always)] // after inlining with its closure, a sum is a few instructions
pub(super) fn operands(a: Val, b: Val) -> Option<(Interval, Interval)> {
    let (Val::Int(a), Val::Int(b)) = (a, b) else { return None };
    match (a.ty, b.ty) {
        (x, y) if x == y => Some((a, b)),
        (ty, IntType::I32) => Some((a, b.cast(ty))),
        (IntType::I32, ty) => Some((a.cast(ty), b)),
        _ => None,
    }
}

/// Applies a function of two integers of one type.
#[inline(always)] // as `operands`
pub(super) fn binary(a: Val, b: Val, f: impl FnOnce(Interval, Interval) -> Interval) -> Val {
    operands(a, b).map_or(Val::Any, |(a, b)| Val::Int(f(a, b)))
}

/// Applies a function of an integer.
#[inline]
pub(super) fn unary(a: Val, f: impl FnOnce(Interval) -> Interval) -> Val {
    match a {
        Val::Int(a) => Val::Int(f(a)),
        _ => Val::Any,
    }
}

impl Tristate {
    pub(super) fn negated(self) -> Tristate {
        match self {
            Tristate::False => Tristate::True,
            Tristate::Unknown => Tristate::Unknown,
            Tristate::True => Tristate::False,
        }
    }

    /// `True` if `is_true`, else `False` if `is_false`, else `Unknown`.
    pub(super) fn known(is_true: bool, is_false: bool) -> Tristate {
        if is_true {
            Tristate::True
        } else if is_false {
            Tristate::False
        } else {
            Tristate::Unknown
        }
    }
}
