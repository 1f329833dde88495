//! Merging partial attention states.

use attn::Out;
use attn::ops::{
    StateMut, StateRef, lse_from_base_2, lse_to_base_2, merge_state, merge_state_in_place, merge_states, merge_sums,
};

use crate::input::handle;
use crate::memory::{Memory, numbers};
use crate::status::{AttnStatus, Failure, call};
use crate::stream::AttnStream;
use crate::tensor::AttnTensor;

/// The state of rows over some of their keys: what a run writes that is `partial`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnState {
    /// The output, divided by its own sum of weights: (tokens, heads, value dim) in f16, bf16 or f32.
    pub o: AttnTensor,
    /// The log-sum-exp of its logits: (tokens, heads) in f32, natural logarithm; `-inf` for a row without keys.
    pub lse: AttnTensor,
}

impl AttnState {
    unsafe fn read<'a>(&self, memory: &Memory, [o, lse]: [&str; 2]) -> Result<StateRef<'a>, Failure> {
        // SAFETY: the caller's tensors.
        unsafe { Ok(StateRef { o: self.o.read(memory, o)?, lse: self.lse.read(memory, lse)? }) }
    }

    /// Where a merged state goes, which may have no log-sum-exp.
    unsafe fn out<'a>(&self, memory: &Memory) -> Result<Out<'a>, Failure> {
        // SAFETY: the caller's tensors.
        unsafe {
            let o = self.o.write(memory, "out.o")?;
            Ok(match self.lse.data.is_null() {
                true => Out::new(o),
                false => Out::with_lse(o, self.lse.write(memory, "out.lse")?),
            })
        }
    }
}

/// Merges two states over disjoint keys into `out`, which shares no memory with them and may have no log-sum-exp. A
/// state without keys changes nothing, whatever its output holds. At most one of the two has a sink. On a CUDA device
/// it launches and returns, as a run does; the first call loads its kernel, so it comes before a capture.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_merge_state(
    stream: *const AttnStream,
    a: *const AttnState,
    b: *const AttnState,
    out: *const AttnState,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers; its tensors are its promise.
        unsafe {
            let AttnStream { stream, memory } = handle(stream, "stream")?;
            let a = handle(a, "state a")?.read(memory, ["a.o", "a.lse"])?;
            let b = handle(b, "state b")?.read(memory, ["b.o", "b.lse"])?;
            Ok(merge_state(stream, &a, &b, handle(out, "merged state")?.out(memory)?)?)
        }
    })
}

/// Merges `b` into `a`, for the tokens whose entry of `mask` is not 0: a byte a token, in memory of the engine; null is
/// all tokens. Otherwise as `attn_merge_state`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_merge_state_in_place(
    stream: *const AttnStream,
    a: *const AttnState,
    b: *const AttnState,
    mask: *const u8,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers; its tensors are its promise.
        unsafe {
            let AttnStream { stream, memory } = handle(stream, "stream")?;
            let (a, b) = (handle(a, "state a")?, handle(b, "state b")?.read(memory, ["b.o", "b.lse"])?);
            let mut a = StateMut { o: a.o.write(memory, "a.o")?, lse: a.lse.write(memory, "a.lse")? };
            let tokens = a.o.shape()[0];
            let mask = match mask.is_null() {
                true => None,
                false => Some(numbers(mask, tokens, memory, "the mask")?),
            };
            Ok(merge_state_in_place(stream, &mut a, &b, mask.as_ref())?)
        }
    })
}

/// Merges any number of states: `o` of (tokens, states, heads, value dim) and `lse` of (tokens, states, heads), into
/// `out` of one state. Otherwise as `attn_merge_state`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_merge_states(
    stream: *const AttnStream,
    states: *const AttnState,
    out: *const AttnState,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers; its tensors are its promise.
        unsafe {
            let AttnStream { stream, memory } = handle(stream, "stream")?;
            let states = handle(states, "states")?.read(memory, ["states.o", "states.lse"])?;
            Ok(merge_states(stream, &states, handle(out, "merged state")?.out(memory)?)?)
        }
    })
}

/// Adds outputs of variants that divide by no sum of weights, over disjoint keys: (tokens, heads, value dim). Otherwise
/// as `attn_merge_state`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_merge_sums(
    stream: *const AttnStream,
    a: *const AttnTensor,
    b: *const AttnTensor,
    o: *const AttnTensor,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers; its tensors are its promise.
        unsafe {
            let AttnStream { stream, memory } = handle(stream, "stream")?;
            let (a, b) = (handle(a, "tensor a")?.read(memory, "a")?, handle(b, "tensor b")?.read(memory, "b")?);
            Ok(merge_sums(stream, &a, &b, handle(o, "tensor o")?.write(memory, "o")?)?)
        }
    })
}

/// Converts log-sum-exps from natural logarithms, which attn-rs writes, to base 2, in place: (tokens) or (tokens,
/// heads) in f32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_lse_to_base_2(stream: *const AttnStream, lse: *const AttnTensor) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers; its tensor is its promise.
        unsafe {
            let AttnStream { stream, memory } = handle(stream, "stream")?;
            Ok(lse_to_base_2(stream, handle(lse, "log-sum-exp")?.write(memory, "lse")?)?)
        }
    })
}

/// Converts log-sum-exps from base 2, which FlashInfer writes, to natural logarithms, as `attn_lse_to_base_2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_lse_from_base_2(stream: *const AttnStream, lse: *const AttnTensor) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers; its tensor is its promise.
        unsafe {
            let AttnStream { stream, memory } = handle(stream, "stream")?;
            Ok(lse_from_base_2(stream, handle(lse, "log-sum-exp")?.write(memory, "lse")?)?)
        }
    })
}
