//! The functions of the abstract interpreter on operands of any types. What they compute of integers of one type is in
//! [`functions`](super::functions).

use super::super::Tristate;
use super::functions::{self as of, IntType, Interval, between, bit_and_of, convert, full, sub_of, wrapped};
use super::value::Val;
use super::wide::{self, Wide};

/// Two integers of 64 bits, one of which may be an untyped literal.
fn wides(a: Val, b: Val) -> Option<(Wide, Wide)> {
    let literal = |x: Interval<i32>, like: Wide| wide::wide(x.lo.into(), x.hi.into(), like.is_unsigned);
    match (a, b) {
        (Val::Wide(a), Val::Wide(b)) => Some((a, b)),
        (Val::Wide(a), Val::I32(b)) => Some((a, literal(b, a))),
        (Val::I32(a), Val::Wide(b)) => Some((literal(a, b), b)),
        _ => None,
    }
}

/// A function of two integers of 64 bits; unknown of other operands.
fn of_wides(a: Val, b: Val, function: fn(Wide, Wide) -> Wide) -> Val {
    wides(a, b).map_or(Val::Any, |(a, b)| Val::Wide(function(a, b)))
}

fn compared(a: Val, b: Val, function: fn(Wide, Wide) -> Tristate) -> Val {
    Val::Bool(wides(a, b).map_or(Tristate::Unknown, |(a, b)| function(a, b)))
}

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
    ($other:ident; $($doc:literal $name:ident: $of:path, $wide:path);* $(;)?) => {$(
        #[doc = $doc]
        #[inline]
        pub fn $name(a: Val, b: Val) -> Val {
            #[inline(never)]
            fn other_types(a: Val, b: Val) -> Val {
                of_pair!(a, b, |a, b| $of(a, b), $other(a, b, $wide))
            }
            match (a, b) {
                (Val::I32(a), Val::I32(b)) => Val::from($of(a, b)),
                _ => other_types(a, b),
            }
        }
    )*};
}

macro_rules! pairs {
    ($($doc:literal $name:ident: $of:path $(, $wide:path)?);* $(;)?) => {$(
        #[doc = $doc]
        pub fn $name(a: Val, b: Val) -> Val {
            #[allow(unused_mut, unused_assignments)]
            let mut other: Option<fn(Wide, Wide) -> Wide> = None;
            $(other = Some($wide);)?
            of_pair!(a, b, |a, b| $of(a, b), other.map_or(Val::Any, |other| of_wides(a, b, other)))
        }
    )*};
}

macro_rules! ones {
    ($($doc:literal $name:ident: $of:path),* $(,)?) => {$(
        #[doc = $doc]
        pub fn $name(a: Val) -> Val {
            of_one!(a, |a| $of(a), Val::Any)
        }
    )*};
}

common_pairs! {
    of_wides;
    "`a + b`." add: of::add_of, wide::wide_add;
    "`a - b`." sub: of::sub_of, wide::wide_sub;
    "`a * b`." mul: of::mul_of, wide::wide_mul;
}

common_pairs! {
    compared;
    "`a < b`." lt: of::lt_of, wide::wide_lt;
    "`a <= b`." le: of::le_of, wide::wide_le;
}

pairs! {
    "`a / b`, towards zero." div: of::div_of, wide::wide_div;
    "`a % b`, with the sign of `a`." rem: of::rem_of, wide::wide_rem;
    "`a.div_euclid(b)`." div_euclid: of::div_euclid_of, wide::wide_div_euclid;
    "`a.rem_euclid(b)`, never negative." rem_euclid: of::rem_euclid_of, wide::wide_rem_euclid;
    "`a.min(b)`." min: of::min_of, wide::wide_min;
    "`a.max(b)`." max: of::max_of, wide::wide_max;
    "`a.saturating_add(b)`." saturating_add: of::saturating_add_of;
    "`a.saturating_sub(b)`." saturating_sub: of::saturating_sub_of;
}

ones! {
    "`a.signum()`." signum: of::signum_of,
    "`a.count_ones()`." count_ones: of::count_ones_of,
    "`a.leading_zeros()`." leading_zeros: of::leading_zeros_of,
    "`a.trailing_zeros()`." trailing_zeros: of::trailing_zeros_of,
}

/// `-a`.
pub fn neg(a: Val) -> Val {
    match a {
        Val::Wide(a) => Val::Wide(wide::wide_neg(a)),
        _ => of_one!(a, |a| of::neg_of(a), Val::Any),
    }
}

/// `a.abs()`.
pub fn abs(a: Val) -> Val {
    match a {
        Val::Wide(a) => Val::Wide(wide::wide_abs(a)),
        _ => of_one!(a, |a| of::abs_of(a), Val::Any),
    }
}

/// Defines a function of two integers or two bools.
macro_rules! of_bools_too {
    ($($doc:literal $name:ident: $ints:path, $bools:path, $others:expr);* $(;)?) => {$(
        #[doc = $doc]
        pub fn $name(a: Val, b: Val) -> Val {
            match (a, b) {
                (Val::Bool(a), Val::Bool(b)) => Val::Bool($bools(a, b)),
                _ => of_pair!(a, b, |a, b| $ints(a, b), $others(a, b)),
            }
        }
    )*};
}

of_bools_too! {
    "`a & b`, of integers or bools." bit_and: of::bit_and_of, of::and_of, |a, b| of_wides(a, b, wide::wide_and);
    "`a | b`, of integers or bools." bit_or: of::bit_or_of, of::or_of, |_, _| Val::Any;
    "`a ^ b`, of integers or bools." bit_xor: of::bit_xor_of, of::xor_of, |_, _| Val::Any;
}

/// `!a`, of an integer or a bool.
pub fn bit_not(a: Val) -> Val {
    match a {
        Val::Bool(a) => Val::Bool(of::not_of(a)),
        _ => of_one!(a, |a| of::bit_not_of(a), Val::Any),
    }
}

/// `a > b`.
#[inline]
pub fn gt(a: Val, b: Val) -> Val {
    lt(b, a)
}

/// `a >= b`.
#[inline]
pub fn ge(a: Val, b: Val) -> Val {
    le(b, a)
}

/// `a == b`, of integers or bools.
#[inline]
pub fn eq(a: Val, b: Val) -> Val {
    match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => Val::Bool(of::not_of(of::xor_of(a, b))),
        _ => of_pair!(a, b, |a, b| of::eq_of(a, b), compared(a, b, wide::wide_eq)),
    }
}

/// `a != b`, of integers or bools.
pub fn ne(a: Val, b: Val) -> Val {
    bit_not(eq(a, b))
}

/// `a && b`.
#[inline]
pub fn both(a: Val, b: Val) -> Val {
    Val::Bool(of::and_of(tristate(a), tristate(b)))
}

/// `a || b`.
#[inline]
pub fn either(a: Val, b: Val) -> Val {
    Val::Bool(of::or_of(tristate(a), tristate(b)))
}

/// The result of a mask.
#[inline]
pub fn tristate(value: Val) -> Tristate {
    match value {
        Val::Bool(known) => known,
        _ => Tristate::Unknown,
    }
}

/// `if condition { a } else { b }`. The result is the join of both where the condition is unknown.
pub fn select(condition: Val, a: Val, b: Val) -> Val {
    let which = tristate(condition);
    if let (Val::Bool(a), Val::Bool(b)) = (a, b) {
        return Val::Bool(of::choice_of(which, a, b));
    }
    let other = |a, b| match which {
        Tristate::True => of_wides(a, b, |a, _| a),
        Tristate::False => of_wides(a, b, |_, b| b),
        Tristate::Unknown => of_wides(a, b, wide::wide_join),
    };
    of_pair!(a, b, |a, b| of::select_of(which, a, b), other(a, b))
}

/// `x.clamp(low, high)`.
pub fn clamp(x: Val, low: Val, high: Val) -> Val {
    min(max(x, low), high)
}

/// `a.is_power_of_two()`.
pub fn is_power_of_two(a: Val) -> Val {
    of_one!(a, |a| of::is_power_of_two_of(a), Val::Bool(Tristate::Unknown))
}

/// Defines a function of an integer by another of any type. Of a second operand that is no integer, only the type of
/// the result is known.
macro_rules! by_any {
    ($($doc:literal $name:ident: $of:path, $wide:expr);* $(;)?) => {$(
        #[doc = $doc]
        pub fn $name(a: Val, by: Val) -> Val {
            if let Val::Wide(a) = a {
                return distance(by).map_or(Val::Any, |by| $wide(a, by));
            }
            fn by_any<T: IntType>(a: Interval<T>, by: Val) -> Interval<T> {
                match by {
                    Val::I32(by) => $of(a, by),
                    Val::U32(by) => $of(a, by),
                    Val::U8(by) => $of(a, by),
                    Val::Wide(_) | Val::Bool(_) | Val::Any => full(),
                }
            }
            of_one!(a, |a| by_any(a, by), Val::Any)
        }
    )*};
}

/// The distance of a shift, if it is known.
fn distance(by: Val) -> Option<i64> {
    let one = |lo: i64, hi: i64| (lo == hi).then_some(lo);
    match by {
        Val::I32(by) => one(by.lo.into(), by.hi.into()),
        Val::U32(by) => one(by.lo.into(), by.hi.into()),
        Val::U8(by) => one(by.lo.into(), by.hi.into()),
        Val::Wide(_) | Val::Bool(_) | Val::Any => None,
    }
}

fn shl_wide(a: Wide, by: i64) -> Val {
    Val::Wide(wide::wide_shl(a, by))
}

fn shr_wide(a: Wide, by: i64) -> Val {
    Val::Wide(wide::wide_shr(a, by))
}

by_any! {
    "`a << by`, modulo the width, as in a kernel." shl: of::shl_of, shl_wide;
    "`a >> by`, modulo the width; arithmetic for signed types." shr: of::shr_of, shr_wide;
    "`a.pow(n)`; unknown for a base that may be negative." pow: of::pow_of, |_, _| Val::Any;
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
pub fn unsigned_abs(a: Val) -> Val {
    fn typed<T: Magnitude>(a: Interval<T>) -> Interval<T::Unsigned> {
        of::unsigned_abs_of(a)
    }
    of_one!(a, |a| typed(a), Val::Any)
}

/// `a.abs_diff(b)`.
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
        pub fn $name(a: Val) -> Val {
            Val::from(match a {
                Val::I32(a) => convert::<$t, i32>(a),
                Val::U32(a) => convert::<$t, u32>(a),
                Val::U8(a) => convert::<$t, u8>(a),
                Val::Bool(a) => of::cast_of(a),
                Val::Wide(a) if a.known => wrapped::<$t>(a.lo, a.hi),
                Val::Wide(_) | Val::Any => full(),
            })
        }
    )*};
}

casts! {
    "`a as i32`." cast_i32: i32;
    "`a as u32`." cast_u32: u32;
    "`a as u8`." cast_u8: u8;
}

fn to_wide(a: Val, is_unsigned: bool) -> Val {
    let of = |lo: i64, hi: i64| wide::wide(lo, hi, is_unsigned);
    Val::Wide(match a {
        Val::I32(a) => of(a.lo.into(), a.hi.into()),
        Val::U32(a) => of(a.lo.into(), a.hi.into()),
        Val::U8(a) => of(a.lo.into(), a.hi.into()),
        Val::Bool(a) => of(i64::from(a == Tristate::True), i64::from(a != Tristate::False)),
        Val::Wide(a) if a.known => of(a.lo, a.hi),
        Val::Wide(_) | Val::Any => wide::unknown_wide(is_unsigned),
    })
}

/// `a as u64`.
pub fn cast_u64(a: Val) -> Val {
    to_wide(a, true)
}

/// `a as i64`.
pub fn cast_i64(a: Val) -> Val {
    to_wide(a, false)
}

/// `a & (a - 1)`.
pub fn clear_lowest(a: Val) -> Val {
    fn typed<T: IntType>(a: Interval<T>) -> Interval<T> {
        let (lo, hi) = (a.lo.to_i64(), a.hi.to_i64());
        let few = wide::cleared(lo, hi);
        if few.known {
            return between::<T>(few.lo, few.hi);
        }
        let plain = bit_and_of(a, sub_of(a, between::<T>(1, 1)));
        let least = if wide::has_no_power(lo, hi) { plain.lo.to_i64().max(1) } else { plain.lo.to_i64() };
        between::<T>(least, plain.hi.to_i64().max(least))
    }
    of_one!(a, |a| typed(a), Val::Any)
}

/// The bounds of an i32 that is one number.
fn number(a: Val) -> i64 {
    match a {
        Val::I32(a) if a.lo == a.hi => a.lo.into(),
        _ => 0,
    }
}

/// `x.rem_euclid(m) / size == y`.
pub fn eq_cell(x: Val, m: Val, size: Val, y: Val) -> Val {
    let plain = eq(div(rem_euclid(x, m), size), y);
    match (x, y) {
        (Val::I32(x), Val::I32(y)) if tristate(plain) == Tristate::Unknown => {
            let (x, y) = (wide::wide(x.lo.into(), x.hi.into(), false), wide::wide(y.lo.into(), y.hi.into(), false));
            let differ = wide::cells_differ(x, y, number(m), number(size));
            Val::Bool(if differ { Tristate::False } else { Tristate::Unknown })
        }
        _ => plain,
    }
}

/// `x.rem_euclid(m) / size == y.rem_euclid(m) / size`.
pub fn eq_cells(x: Val, y: Val, m: Val, size: Val) -> Val {
    let plain = eq(div(rem_euclid(x, m), size), div(rem_euclid(y, m), size));
    match (x, y) {
        (Val::I32(x), Val::I32(y)) if tristate(plain) == Tristate::Unknown => {
            let (x, y) = (wide::wide(x.lo.into(), x.hi.into(), false), wide::wide(y.lo.into(), y.hi.into(), false));
            let differ = wide::cells_are_apart(x, y, number(m), number(size));
            Val::Bool(if differ { Tristate::False } else { Tristate::Unknown })
        }
        _ => plain,
    }
}
