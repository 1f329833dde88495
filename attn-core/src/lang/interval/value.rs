//! Abstract values: what an expression may be over a tile.

use super::super::Tristate;
use super::functions::{IntType, Interval, between};
use super::wide::{self, Wide};

/// The set of values that an expression takes in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // an integer of the type
pub enum Val {
    I32(Interval<i32>),
    U32(Interval<u32>),
    U8(Interval<u8>),
    /// An integer of 64 bits.
    Wide(Wide),
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
    ($($t:ty: $variant:ident),*) => {$(
        impl From<Interval<$t>> for Val {
            #[inline]
            fn from(a: Interval<$t>) -> Val {
                Val::$variant(a)
            }
        }
        impl Abstract for $t {
            #[inline]
            fn value(self) -> Val {
                Val::$variant(only(self))
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

impl From<Tristate> for Val {
    #[inline]
    fn from(known: Tristate) -> Val {
        Val::Bool(known)
    }
}

#[inline]
fn only<T: IntType>(x: T) -> Interval<T> {
    between(x.to_i64(), x.to_i64())
}

/// The abstract value of a parameter, a constant or a literal.
#[inline]
pub fn of(value: impl Abstract) -> Val {
    value.value()
}

/// A coordinate between the bounds of a tile.
#[inline]
pub fn coordinate(min: i32, max: i32) -> Val {
    Val::I32(between(min.into(), max.into()))
}

/// The bounds of a coordinate.
pub fn coordinate_bounds(value: Val) -> (i32, i32) {
    match value {
        Val::I32(a) => (a.lo, a.hi),
        _ => (i32::MIN, i32::MAX),
    }
}

/// An integer of 64 bits.
pub trait WideInt {
    /// The abstract value that contains only this value.
    fn wide(self) -> Wide;
}
impl WideInt for i64 {
    fn wide(self) -> Wide {
        wide::wide(self, self, false)
    }
}
impl WideInt for u64 {
    fn wide(self) -> Wide {
        i64::try_from(self).map_or(wide::unknown_wide(true), |x| wide::wide(x, x, true))
    }
}

/// The abstract value of a constant or a literal of 64 bits.
pub fn wide(value: impl WideInt) -> Val {
    Val::Wide(value.wide())
}
