//! The methods of numbers that hooks may call.

use crate::abstract_interp::interval_fn::IntervalFn as F;

/// The receiver of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// f32.
    Float,
    /// Integers.
    Int,
    /// Floats and integers.
    Number,
}

/// The type of an argument or a result, relative to the receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Sort {
    Same,
    Bool,
    U32,
    I32,
    Pair,
    /// The unsigned integer of the same width.
    Unsigned,
}

/// A method of Rust's numbers, with the same name in lang/lang.cuh or lang/float_more.cuh.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Method {
    pub name: &'static str,
    pub on: On,
    pub args: &'static [Sort],
    pub result: Sort,
    /// Its function over abstract values, in lang/interval.cuh.
    pub over: Option<F>,
}

impl Method {
    const fn over(self, function: F) -> Method {
        Method { over: Some(function), ..self }
    }
}

const fn m(name: &'static str, on: On, args: &'static [Sort], result: Sort) -> Method {
    Method { name, on, args, result, over: None }
}

use On::{Float, Int, Number};
use Sort::{Bool, I32, Pair, Same, U32, Unsigned};

/// Every method of the language.
pub const METHODS: &[Method] = &[
    m("abs", Number, &[], Same).over(F::Abs),
    m("min", Number, &[Same], Same).over(F::Min),
    m("max", Number, &[Same], Same).over(F::Max),
    m("clamp", Number, &[Same, Same], Same).over(F::Clamp),
    m("signum", Number, &[], Same).over(F::Signum),
    m("rem_euclid", Number, &[Same], Same).over(F::RemEuclid),
    m("div_euclid", Number, &[Same], Same).over(F::DivEuclid),
    m("exp", Float, &[], Same),
    m("exp2", Float, &[], Same),
    m("exp_m1", Float, &[], Same),
    m("ln", Float, &[], Same),
    m("ln_1p", Float, &[], Same),
    m("log2", Float, &[], Same),
    m("log10", Float, &[], Same),
    m("sqrt", Float, &[], Same),
    m("recip", Float, &[], Same),
    m("sin", Float, &[], Same),
    m("cos", Float, &[], Same),
    m("sin_cos", Float, &[], Pair),
    m("tan", Float, &[], Same),
    m("tanh", Float, &[], Same),
    m("sinh", Float, &[], Same),
    m("cosh", Float, &[], Same),
    m("asin", Float, &[], Same),
    m("acos", Float, &[], Same),
    m("atan", Float, &[], Same),
    m("atan2", Float, &[Same], Same),
    m("hypot", Float, &[Same], Same),
    m("cbrt", Float, &[], Same),
    m("powi", Float, &[I32], Same),
    m("powf", Float, &[Same], Same),
    m("mul_add", Float, &[Same, Same], Same),
    m("floor", Float, &[], Same),
    m("ceil", Float, &[], Same),
    m("trunc", Float, &[], Same),
    m("fract", Float, &[], Same),
    m("round", Float, &[], Same),
    m("round_ties_even", Float, &[], Same),
    m("to_bits", Float, &[], U32),
    m("is_nan", Float, &[], Bool),
    m("is_finite", Float, &[], Bool),
    m("is_infinite", Float, &[], Bool),
    m("is_sign_negative", Float, &[], Bool),
    m("is_sign_positive", Float, &[], Bool),
    m("copysign", Float, &[Same], Same),
    m("pow", Int, &[U32], Same).over(F::Pow),
    m("wrapping_add", Int, &[Same], Same).over(F::Add),
    m("wrapping_sub", Int, &[Same], Same).over(F::Sub),
    m("wrapping_mul", Int, &[Same], Same).over(F::Mul),
    m("wrapping_div", Int, &[Same], Same),
    m("wrapping_rem", Int, &[Same], Same),
    m("wrapping_pow", Int, &[U32], Same),
    m("wrapping_abs", Int, &[], Same),
    m("wrapping_neg", Int, &[], Same).over(F::Neg),
    m("wrapping_shl", Int, &[U32], Same).over(F::Shl),
    m("wrapping_shr", Int, &[U32], Same).over(F::Shr),
    m("saturating_add", Int, &[Same], Same).over(F::SaturatingAdd),
    m("saturating_sub", Int, &[Same], Same).over(F::SaturatingSub),
    m("saturating_mul", Int, &[Same], Same),
    m("rotate_left", Int, &[U32], Same),
    m("rotate_right", Int, &[U32], Same),
    m("count_ones", Int, &[], U32).over(F::CountOnes),
    m("count_zeros", Int, &[], U32),
    m("leading_zeros", Int, &[], U32).over(F::LeadingZeros),
    m("trailing_zeros", Int, &[], U32).over(F::TrailingZeros),
    m("leading_ones", Int, &[], U32),
    m("trailing_ones", Int, &[], U32),
    m("reverse_bits", Int, &[], Same),
    m("is_positive", Int, &[], Bool),
    m("is_negative", Int, &[], Bool),
    m("div_ceil", Int, &[Same], Same),
    m("next_multiple_of", Int, &[Same], Same),
    m("next_power_of_two", Int, &[], Same),
    m("is_power_of_two", Int, &[], Bool).over(F::IsPowerOfTwo),
    m("isqrt", Int, &[], Same),
    m("abs_diff", Int, &[Same], Unsigned).over(F::AbsDiff),
    m("unsigned_abs", Int, &[], Unsigned).over(F::UnsignedAbs),
];

/// Methods of Rust's floats and integers that hooks do not have, of which another name would compute something else.
pub const NOT_AVAILABLE: &[&str] = &[
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "gamma",
    "ln_gamma",
    "log",
    "ilog",
    "ilog2",
    "ilog10",
    "checked_ilog",
    "to_degrees",
    "to_radians",
    "total_cmp",
    "midpoint",
    "next_up",
    "next_down",
    "is_normal",
    "is_subnormal",
    "classify",
    "checked_add",
    "checked_sub",
    "checked_mul",
    "checked_div",
    "checked_rem",
    "overflowing_add",
    "overflowing_sub",
    "overflowing_mul",
    "saturating_div",
    "saturating_pow",
    "wrapping_rem_euclid",
    "wrapping_div_euclid",
    "carrying_add",
    "swap_bytes",
    "to_be",
    "to_le",
    "to_be_bytes",
    "to_le_bytes",
    "to_ne_bytes",
    "checked_pow",
    "checked_shl",
    "checked_shr",
    "checked_neg",
    "checked_abs",
    "cast_signed",
    "cast_unsigned",
    "maximum",
    "minimum",
    "unsigned_diff",
];
