//! Masks over whole tiles: values of which only bounds are known.
//!
//! `#[attention_variant]` writes each `logits_mask` a second time, over these values, as `mask_over`: a
//! [`Val`] stands for every value that the expression takes anywhere in the tile. Each function here is sound: what
//! it gives contains the result for every choice of operands. `attn-kernels/cuda/lang/interval.cuh` says the same in CUDA, to the bit.
//!
//! An integer is an interval and a set of known bits; a bool is a [`Tri`](super::Tri); a float is [`Val::Any`]. Where a result may wrap,
//! its interval is that of the wrapped values if all wrap alike, else the whole type.

mod bits;
mod compare;
mod divide;
mod ints;
mod method;
mod ops;
mod shift;
mod table;
mod value;

pub use compare::{both, either, eq, ge, gt, le, lt, ne, select};
pub use divide::{div, div_euclid, rem, rem_euclid};
pub use ints::{IntType, Ints};
pub use method::{
    abs, abs_diff, clamp, count_ones, is_power_of_two, leading_zeros, max, min, pow, saturating_add, saturating_sub,
    signum, trailing_zeros, unsigned_abs,
};
pub use ops::{add, bit_and, bit_not, bit_or, bit_xor, cast_i32, cast_u8, cast_u32, mul, neg, sub};
pub use shift::{shl, shr};
pub use table::{RangeOf, element};
pub use value::{Abstract, Val, of, tri, word, word_bounds};

#[cfg(test)]
mod tests;
