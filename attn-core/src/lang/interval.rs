//! Abstract interpretation of the mask of a tile, with intervals and known bits (compare LLVM's `ConstantRange` and
//! `KnownBits`).
//!
//! `#[attention_variant]` translates each `logits_mask` into `mask_over`, in which a [`Val`] stands for all values that
//! an expression takes in a tile. Every function here is sound: its result contains the concrete result for every
//! choice of operands. `attn-kernels/cuda/lang/interval.cuh` has the same functions in CUDA with bit-identical results.
//!
//! An integer is an interval with known bits, a bool is a [`Tristate`](super::Tristate), a float is [`Val::Any`]. If a
//! result may wrap, its interval is the interval of the wrapped values if all of them wrap the same number of times,
//! else the whole range of the type.

mod bits;
mod compare;
mod divide;
mod element;
mod integer;
mod method;
mod ops;
mod shift;
mod value;

pub use compare::{both, either, eq, ge, gt, le, lt, ne, select};
pub use divide::{div, div_euclid, rem, rem_euclid};
pub use element::{IntervalOf, element};
pub use integer::{IntType, Interval};
pub use method::{
    abs, abs_diff, clamp, count_ones, is_power_of_two, leading_zeros, max, min, pow, saturating_add, saturating_sub,
    signum, trailing_zeros, unsigned_abs,
};
pub use ops::{add, bit_and, bit_not, bit_or, bit_xor, cast_i32, cast_u8, cast_u32, mul, neg, sub};
pub use shift::{shl, shr};
pub use value::{Abstract, Val, coordinate, coordinate_bounds, of, tristate};

#[cfg(test)]
mod tests;
