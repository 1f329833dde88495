//! What an expression may be over a tile.

use super::{
    super::Tri,
    ints::{IntType, Ints},
};

/// Every value that an expression takes in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Val {
    /// An integer.
    Int(Ints),
    /// A bool.
    Bool(Tri),
    /// Anything: a float, or what is not followed.
    Any,
}

/// A Rust value as one that is known.
pub trait Abstract {
    /// It.
    fn value(self) -> Val;
}

macro_rules! ints {
    ($($t:ty: $ty:ident),*) => {$(
        impl Abstract for $t {
            fn value(self) -> Val {
                Val::Int(Ints::new(IntType::$ty, i64::from(self), i64::from(self)))
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
any!(f32, u64);

impl Abstract for bool {
    fn value(self) -> Val {
        Val::Bool(if self { Tri::True } else { Tri::False })
    }
}

/// A parameter, constant or literal.
#[inline]
#[must_use]
pub fn of(value: impl Abstract) -> Val {
    value.value()
}

/// An index word of a tile.
#[inline]
#[must_use]
pub fn word(min: i32, max: i32) -> Val {
    Val::Int(Ints::new(IntType::I32, min.into(), max.into()))
}

/// The bounds of an index word.
#[must_use]
pub fn word_bounds(value: Val) -> (i32, i32) {
    match value {
        Val::Int(Ints { ty: IntType::I32, lo, hi, .. }) => (lo as i32, hi as i32),
        _ => (i32::MIN, i32::MAX),
    }
}

/// As the answer of a mask.
#[inline]
#[must_use]
pub fn tri(value: Val) -> Tri {
    match value {
        Val::Bool(known) => known,
        _ => Tri::Unknown,
    }
}

/// Two operands of one type. Rust has checked that they agree, so that an odd one out is an int literal.
#[inline(always)] // with its closure, a sum or difference is a few instructions of whoever asks about a tile
pub(super) fn operands(a: Val, b: Val) -> Option<(Ints, Ints)> {
    let (Val::Int(a), Val::Int(b)) = (a, b) else { return None };
    match (a.ty, b.ty) {
        (x, y) if x == y => Some((a, b)),
        (ty, IntType::I32) => Some((a, b.cast(ty))),
        (IntType::I32, ty) => Some((a.cast(ty), b)),
        _ => None,
    }
}

/// A function of two integers of one type.
#[inline(always)] // as `operands`
pub(super) fn binary(a: Val, b: Val, f: impl FnOnce(Ints, Ints) -> Ints) -> Val {
    operands(a, b).map_or(Val::Any, |(a, b)| Val::Int(f(a, b)))
}

/// A function of an integer.
#[inline]
pub(super) fn unary(a: Val, f: impl FnOnce(Ints) -> Ints) -> Val {
    match a {
        Val::Int(a) => Val::Int(f(a)),
        _ => Val::Any,
    }
}

impl Tri {
    pub(super) fn negated(self) -> Tri {
        match self {
            Tri::False => Tri::True,
            Tri::Unknown => Tri::Unknown,
            Tri::True => Tri::False,
        }
    }

    /// True if the one holds, false if the other does.
    pub(super) fn known(is_true: bool, is_false: bool) -> Tri {
        if is_true {
            Tri::True
        } else if is_false {
            Tri::False
        } else {
            Tri::Unknown
        }
    }
}
