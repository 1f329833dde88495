//! Methods of numbers as Rust computes them, for the interpreter of random hooks.

use crate::fuzz::value::{V, ints};

/// Methods of signed integers alone.
macro_rules! signed {
    ($name:expr, $x:expr, $v:expr) => {
        match $name {
            "signum" => $v($x.signum()),
            "is_positive" => V::Bool($x.is_positive()),
            "is_negative" => V::Bool($x.is_negative()),
            _ => $v($x.wrapping_abs()),
        }
    };
}

/// `x.name(args)`.
pub(crate) fn call(name: &str, x: V, args: &[V]) -> V {
    let y = args.first().copied().unwrap_or(x);
    match (name, x, y) {
        ("is_nan", V::F32(x), _) => V::Bool(x.is_nan()),
        ("to_bits", V::F32(x), _) => V::U32(x.to_bits()),
        ("mul_add", V::F32(x), V::F32(y)) => match args[1] {
            V::F32(z) => V::F32(x.mul_add(y, z)),
            z => panic!("{z:?}"),
        },
        ("abs_diff", V::I32(x), V::I32(y)) => V::U32(x.abs_diff(y)),
        ("abs_diff", V::I64(x), V::I64(y)) => V::U64(x.abs_diff(y)),
        (_, V::F32(x), V::F32(y)) => V::F32(match name {
            "min" => x.min(y),
            "max" => x.max(y),
            "abs" => x.abs(),
            "floor" => x.floor(),
            "ceil" => x.ceil(),
            "trunc" => x.trunc(),
            "round" => x.round(),
            "round_ties_even" => x.round_ties_even(),
            "sqrt" => x.sqrt(),
            _ => panic!("{name}"),
        }),
        ("abs" | "wrapping_abs" | "signum" | "is_positive" | "is_negative", V::I32(x), _) => signed!(name, x, V::I32),
        ("abs" | "wrapping_abs" | "signum" | "is_positive" | "is_negative", V::I64(x), _) => signed!(name, x, V::I64),
        ("is_power_of_two" | "next_power_of_two" | "div_ceil" | "next_multiple_of" | "isqrt", ..) => {
            unsigned(name, x, y)
        }
        ("rotate_left" | "rotate_right" | "pow" | "wrapping_pow" | "wrapping_shl" | "wrapping_shr", _, V::U32(n)) => {
            ints!(
                x,
                x,
                |x, _y, v| v(match name {
                    "rotate_left" => x.rotate_left(n),
                    "rotate_right" => x.rotate_right(n),
                    "wrapping_shl" => x.wrapping_shl(n),
                    "wrapping_shr" => x.wrapping_shr(n),
                    _ => x.wrapping_pow(n),
                }),
                panic!("{x:?}")
            )
        }
        ("clamp", V::I32(x), V::I32(low)) => match args[1] {
            V::I32(high) => V::I32(x.clamp(low, high)),
            high => panic!("{high:?}"),
        },
        ("reverse_bits", ..) => ints!(x, x, |x, _y, v| v(x.reverse_bits()), panic!("{x:?}")),
        ("count_ones" | "count_zeros" | "leading_zeros" | "trailing_zeros" | "leading_ones" | "trailing_ones", ..) => {
            ints!(
                x,
                x,
                |x, _y, _v| V::U32(match name {
                    "count_ones" => x.count_ones(),
                    "count_zeros" => x.count_zeros(),
                    "leading_zeros" => x.leading_zeros(),
                    "leading_ones" => x.leading_ones(),
                    "trailing_ones" => x.trailing_ones(),
                    _ => x.trailing_zeros(),
                }),
                panic!("{x:?}")
            )
        }
        _ => ints!(
            x,
            y,
            |x, y, v| v(match name {
                "min" => x.min(y),
                "max" => x.max(y),
                "wrapping_add" => x.wrapping_add(y),
                "wrapping_sub" => x.wrapping_sub(y),
                "wrapping_mul" => x.wrapping_mul(y),
                "wrapping_div" =>
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_div(y)
                    },
                "wrapping_rem" =>
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_rem(y)
                    },
                "saturating_mul" => x.saturating_mul(y),
                "saturating_add" => x.saturating_add(y),
                "saturating_sub" => x.saturating_sub(y),
                "rem_euclid" =>
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_rem_euclid(y)
                    },
                "div_euclid" =>
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_div_euclid(y)
                    },
                _ => panic!("{name}"),
            }),
            panic!("{x:?}.{name}({y:?})")
        ),
    }
}

/// Methods of unsigned integers. `div_ceil` by zero is 0.
fn unsigned(name: &str, x: V, y: V) -> V {
    macro_rules! call {
        ($x:expr, $y:expr, $v:expr) => {
            match name {
                "is_power_of_two" => V::Bool($x.is_power_of_two()),
                "isqrt" => $v($x.isqrt()),
                "next_power_of_two" => $v($x.checked_next_power_of_two().unwrap_or(0)),
                "div_ceil" => $v(if $y == 0 { 0 } else { $x.div_ceil($y) }),
                _ => $v(if $y == 0 || $x % $y == 0 { $x } else { $x.wrapping_add($y - $x % $y) }),
            }
        };
    }
    match (x, y) {
        (V::U32(x), V::U32(y)) => call!(x, y, V::U32),
        (V::U8(x), V::U8(y)) => call!(x, y, V::U8),
        (V::U64(x), V::U64(y)) => call!(x, y, V::U64),
        _ => panic!("{x:?}.{name}({y:?})"),
    }
}
