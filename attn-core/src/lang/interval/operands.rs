//! The functions of the abstract interpreter on operands of any types. What they compute of integers of one type is in
//! [`functions`](super::functions).

use super::{
    super::Tristate,
    functions::{self as of, IntType, Interval, convert, full},
    value::Val,
};

/// A value of two integers, brought to one type. Rust has checked the types, so if they differ, one is an untyped
/// integer literal.
macro_rules! of_pair {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $value:expr, $other:expr) => {
        match ($a, $b) {
            (Val::I32($x), Val::I32($y)) => Val::from($value),
            (Val::U32($x), Val::U32($y)) => Val::from($value),
            (Val::U8($x), Val::U8($y)) => Val::from($value),
            (Val::U32($x), Val::I32($y)) => {
                let $y = convert::<u32, i32>($y);
                Val::from($value)
            }
            (Val::I32($x), Val::U32($y)) => {
                let $x = convert::<u32, i32>($x);
                Val::from($value)
            }
            (Val::U8($x), Val::I32($y)) => {
                let $y = convert::<u8, i32>($y);
                Val::from($value)
            }
            (Val::I32($x), Val::U8($y)) => {
                let $x = convert::<u8, i32>($x);
                Val::from($value)
            }
            _ => $other,
        }
    };
}

/// A value of an integer.
macro_rules! of_one {
    ($a:expr, |$x:ident| $value:expr, $other:expr) => {
        match $a {
            Val::I32($x) => Val::from($value),
            Val::U32($x) => Val::from($value),
            Val::U8($x) => Val::from($value),
            _ => $other,
        }
    };
}

/// Defines functions of two integers that masks call on coordinates, which are i32: inlined, a sum of theirs is a few
/// instructions.
macro_rules! common_pairs {
    ($other:expr; $($doc:literal $name:ident: $of:path),* $(,)?) => {$(
        #[doc = $doc]
        #[inline]
        #[must_use]
        pub fn $name(a: Val, b: Val) -> Val {
            #[inline(never)]
            fn other_types(a: Val, b: Val) -> Val {
                of_pair!(a, b, |a, b| $of(a, b), $other)
            }
            match (a, b) {
                (Val::I32(a), Val::I32(b)) => Val::from($of(a, b)),
                _ => other_types(a, b),
            }
        }
    )*};
}

macro_rules! pairs {
    ($($doc:literal $name:ident: $of:path),* $(,)?) => {$(
        #[doc = $doc]
        #[must_use]
        pub fn $name(a: Val, b: Val) -> Val {
            of_pair!(a, b, |a, b| $of(a, b), Val::Any)
        }
    )*};
}

macro_rules! ones {
    ($($doc:literal $name:ident: $of:path),* $(,)?) => {$(
        #[doc = $doc]
        #[must_use]
        pub fn $name(a: Val) -> Val {
            of_one!(a, |a| $of(a), Val::Any)
        }
    )*};
}

common_pairs! {
    Val::Any;
    "`a + b`." add: of::add_of,
    "`a - b`." sub: of::sub_of,
    "`a * b`." mul: of::mul_of,
}

common_pairs! {
    Val::Bool(Tristate::Unknown);
    "`a < b`." lt: of::lt_of,
    "`a <= b`." le: of::le_of,
}

pairs! {
    "`a / b`, towards zero." div: of::div_of,
    "`a % b`, with the sign of `a`." rem: of::rem_of,
    "`a.div_euclid(b)`." div_euclid: of::div_euclid_of,
    "`a.rem_euclid(b)`, never negative." rem_euclid: of::rem_euclid_of,
    "`a.min(b)`." min: of::min_of,
    "`a.max(b)`." max: of::max_of,
    "`a.saturating_add(b)`." saturating_add: of::saturating_add_of,
    "`a.saturating_sub(b)`." saturating_sub: of::saturating_sub_of,
}

ones! {
    "`-a`." neg: of::neg_of,
    "`a.abs()`." abs: of::abs_of,
    "`a.signum()`." signum: of::signum_of,
    "`a.count_ones()`." count_ones: of::count_ones_of,
    "`a.leading_zeros()`." leading_zeros: of::leading_zeros_of,
    "`a.trailing_zeros()`." trailing_zeros: of::trailing_zeros_of,
}

/// Defines a function of two integers or two bools.
macro_rules! of_bools_too {
    ($($doc:literal $name:ident: $ints:path, $bools:path);* $(;)?) => {$(
        #[doc = $doc]
        #[must_use]
        pub fn $name(a: Val, b: Val) -> Val {
            match (a, b) {
                (Val::Bool(a), Val::Bool(b)) => Val::Bool($bools(a, b)),
                _ => of_pair!(a, b, |a, b| $ints(a, b), Val::Any),
            }
        }
    )*};
}

of_bools_too! {
    "`a & b`, of integers or bools." bit_and: of::bit_and_of, of::and_of;
    "`a | b`, of integers or bools." bit_or: of::bit_or_of, of::or_of;
    "`a ^ b`, of integers or bools." bit_xor: of::bit_xor_of, of::xor_of;
}

/// `!a`, of an integer or a bool.
#[must_use]
pub fn bit_not(a: Val) -> Val {
    match a {
        Val::Bool(a) => Val::Bool(of::not_of(a)),
        _ => of_one!(a, |a| of::bit_not_of(a), Val::Any),
    }
}

/// `a > b`.
#[inline]
#[must_use]
pub fn gt(a: Val, b: Val) -> Val {
    lt(b, a)
}

/// `a >= b`.
#[inline]
#[must_use]
pub fn ge(a: Val, b: Val) -> Val {
    le(b, a)
}

/// `a == b`, of integers or bools.
#[inline]
#[must_use]
pub fn eq(a: Val, b: Val) -> Val {
    match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => Val::Bool(of::not_of(of::xor_of(a, b))),
        _ => of_pair!(a, b, |a, b| of::eq_of(a, b), Val::Bool(Tristate::Unknown)),
    }
}

/// `a != b`, of integers or bools.
#[must_use]
pub fn ne(a: Val, b: Val) -> Val {
    bit_not(eq(a, b))
}

/// `a && b`.
#[inline]
#[must_use]
pub fn both(a: Val, b: Val) -> Val {
    Val::Bool(of::and_of(tristate(a), tristate(b)))
}

/// `a || b`.
#[inline]
#[must_use]
pub fn either(a: Val, b: Val) -> Val {
    Val::Bool(of::or_of(tristate(a), tristate(b)))
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

/// `if condition { a } else { b }`. The result is the join of both where the condition is unknown.
#[must_use]
pub fn select(condition: Val, a: Val, b: Val) -> Val {
    let which = tristate(condition);
    if let (Val::Bool(a), Val::Bool(b)) = (a, b) {
        return Val::Bool(of::choice_of(which, a, b));
    }
    of_pair!(a, b, |a, b| of::select_of(which, a, b), Val::Any)
}

/// `x.clamp(low, high)`.
#[must_use]
pub fn clamp(x: Val, low: Val, high: Val) -> Val {
    min(max(x, low), high)
}

/// `a.is_power_of_two()`.
#[must_use]
pub fn is_power_of_two(a: Val) -> Val {
    of_one!(a, |a| of::is_power_of_two_of(a), Val::Bool(Tristate::Unknown))
}

/// Defines a function of an integer by another of any type. Of a second operand that is no integer, only the type of
/// the result is known.
macro_rules! by_any {
    ($($doc:literal $name:ident: $of:path),* $(,)?) => {$(
        #[doc = $doc]
        #[must_use]
        pub fn $name(a: Val, by: Val) -> Val {
            fn by_any<T: IntType>(a: Interval<T>, by: Val) -> Interval<T> {
                match by {
                    Val::I32(by) => $of(a, by),
                    Val::U32(by) => $of(a, by),
                    Val::U8(by) => $of(a, by),
                    Val::Bool(_) | Val::Any => full(),
                }
            }
            of_one!(a, |a| by_any(a, by), Val::Any)
        }
    )*};
}

by_any! {
    "`a << by`, modulo the width, as in a kernel." shl: of::shl_of,
    "`a >> by`, modulo the width; arithmetic for signed types." shr: of::shr_of,
    "`a.pow(n)`; unknown for a base that may be negative." pow: of::pow_of,
}

/// The unsigned type of the same width.
trait Magnitude: IntType {
    type Unsigned: IntType;
}
impl Magnitude for i32 {
    type Unsigned = u32;
}
impl Magnitude for u32 {
    type Unsigned = u32;
}
impl Magnitude for u8 {
    type Unsigned = u8;
}

/// `a.unsigned_abs()`.
#[must_use]
pub fn unsigned_abs(a: Val) -> Val {
    fn typed<T: Magnitude>(a: Interval<T>) -> Interval<T::Unsigned> {
        of::unsigned_abs_of(a)
    }
    of_one!(a, |a| typed(a), Val::Any)
}

/// `a.abs_diff(b)`.
#[must_use]
pub fn abs_diff(a: Val, b: Val) -> Val {
    fn typed<T: Magnitude>(a: Interval<T>, b: Interval<T>) -> Interval<T::Unsigned> {
        of::abs_diff_of(a, b)
    }
    of_pair!(a, b, |a, b| typed(a, b), Val::Any)
}

/// Defines a cast.
macro_rules! casts {
    ($($doc:literal $name:ident: $t:ty);* $(;)?) => {$(
        #[doc = $doc]
        #[must_use]
        pub fn $name(a: Val) -> Val {
            Val::from(match a {
                Val::I32(a) => convert::<$t, i32>(a),
                Val::U32(a) => convert::<$t, u32>(a),
                Val::U8(a) => convert::<$t, u8>(a),
                Val::Bool(a) => of::cast_of(a),
                Val::Any => full(),
            })
        }
    )*};
}

casts! {
    "`a as i32`." cast_i32: i32;
    "`a as u32`." cast_u32: u32;
    "`a as u8`." cast_u8: u8;
}
