//! Abstract interpretation of the mask of a tile, with intervals and known bits (compare LLVM's `ConstantRange` and
//! `KnownBits`).
//!
//! `#[attention_variant]` translates each `logits_mask` into `mask_over`, in which a [`Val`] stands for all values that
//! an expression takes in a tile. Every function here is sound: its result contains the concrete result for every
//! choice of operands. Those of integers of one type are a header of kernels too (`functions`). Those of any operands
//! are `operands` here, and `attn-kernels/cuda/lang/interval.cuh` in kernels: CUDA chooses by types.
//!
//! An integer is an interval with known bits, a bool is a [`Tristate`](super::Tristate), a float is [`Val::Any`]. If a
//! result may wrap, its interval is the interval of the wrapped values if all of them wrap the same number of times,
//! else the whole range of the type.

mod element;
pub(crate) mod functions;
mod operands;
pub(crate) mod parts;
mod value;
pub(crate) mod wide;

pub use element::{IntervalOf, element};
pub use functions::Interval;
pub use operands::{
    abs, abs_diff, add, bit_and, bit_not, bit_or, bit_xor, both, cast_i32, cast_i64, cast_u8, cast_u32, cast_u64,
    clamp, clear_lowest, count_ones, div, div_euclid, either, eq, eq_cell, eq_cells, ge, gt, is_power_of_two, le,
    leading_zeros, lt, max, min, mul, ne, neg, pow, rem, rem_euclid, saturating_add, saturating_sub, select, shl, shr,
    signum, sub, trailing_zeros, tristate, unsigned_abs,
};
pub use parts::{Parts, many, one, part, repeated, run, single, tile, truth};
pub use value::{Abstract, Val, coordinate, coordinate_bounds, of, wide};
pub use wide::Wide;

#[cfg(test)]
mod tests;
