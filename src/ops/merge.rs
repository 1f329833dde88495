//! Merging partial attention states.

use std::f32::consts::{LN_2, LOG2_E};

use attn_core::ops::{lse, merge};
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use super::{Array, StateMut, StateRef};
use crate::{Error, Out, Stream, TensorMut, TensorRef, backend::try_backend};

/// Merges states over disjoint keys: `o` of (tokens, heads, dim) in f16, bf16 or f32, all of one type, and `lse` of
/// (tokens, heads) in f32, natural log.
///
/// With `m = max(lse_a, lse_b)` and `w = exp(lse - m)`: `o = (w_a o_a + w_b o_b) / (w_a + w_b)`,
/// `lse = m + ln(w_a + w_b)`. A state without keys (`lse = -inf`) changes nothing, whatever its output holds. Where
/// neither has keys, o is 0 and lse `-inf`. At most one of the two may include a sink.
///
/// # Errors
///
/// Tensors of contradicting shapes, or in other memory than the stream; on CUDA also no kernel.
pub fn merge_state(stream: &Stream, a: &StateRef<'_>, b: &StateRef<'_>, out: Out<'_>) -> Result<(), Error> {
    let mut out = out;
    try_backend!(&stream.backend, {
        Cpu(()) => merge::merge_state(a, b, &mut out),
        Cuda(stream) => cuda::ops::merge_state(stream, a, b, &out),
    })
}

/// Merges `b` into `a`, for tokens with a nonzero entry in the mask (`None`: for all).
///
/// # Errors
///
/// A mask without one entry a token; the errors of [`merge_state`].
pub fn merge_state_in_place(
    stream: &Stream,
    a: &mut StateMut<'_>,
    b: &StateRef<'_>,
    mask: Option<&Array<'_, u8>>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => merge::merge_state_in_place(a, b, mask),
        Cuda(stream) => cuda::ops::merge_state_in_place(stream, a, b, mask),
    })
}

/// Merges any number of states, including zero: `o` of (tokens, states, heads, dim), `lse` of (tokens, states, heads).
///
/// # Errors
///
/// The errors of [`merge_state`].
pub fn merge_states(stream: &Stream, states: &StateRef<'_>, out: Out<'_>) -> Result<(), Error> {
    let mut out = out;
    try_backend!(&stream.backend, {
        Cpu(()) => merge::merge_states(states, &mut out),
        Cuda(stream) => cuda::ops::merge_states(stream, states, &out),
    })
}

/// Adds undivided outputs (`Normalizer::Plain { divide: false }`) of (tokens, heads, dim), which merge by addition.
///
/// # Errors
///
/// The errors of [`merge_state`].
pub fn merge_sums(stream: &Stream, a: &TensorRef<'_>, b: &TensorRef<'_>, o: TensorMut<'_>) -> Result<(), Error> {
    let mut o = o;
    try_backend!(&stream.backend, {
        Cpu(()) => merge::sum(a, b, &mut o),
        Cuda(stream) => cuda::ops::sum(stream, a, b, &o),
    })
}

/// Converts log-sum-exps from natural log to base 2, in place: (tokens) or (tokens, heads) in f32.
///
/// # Errors
///
/// A tensor of another rank or type, or in other memory than the stream.
pub fn lse_to_base_2(stream: &Stream, lse: TensorMut<'_>) -> Result<(), Error> {
    scale(stream, lse, LOG2_E)
}

/// Converts log-sum-exps from base 2, as in FlashInfer, to natural log, in place: (tokens) or (tokens, heads) in f32.
///
/// # Errors
///
/// The errors of [`lse_to_base_2`].
pub fn lse_from_base_2(stream: &Stream, lse: TensorMut<'_>) -> Result<(), Error> {
    scale(stream, lse, LN_2)
}

fn scale(stream: &Stream, lse: TensorMut<'_>, factor: f32) -> Result<(), Error> {
    let mut lse = lse;
    try_backend!(&stream.backend, {
        Cpu(()) => lse::scale(&mut lse, factor),
        Cuda(stream) => cuda::ops::scale_lse(stream, &lse, factor),
    })
}
