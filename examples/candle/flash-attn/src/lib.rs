//! The one function of candle-flash-attn that the models of candle-transformers call, over attn-candle. With
//! `[patch.crates-io] candle-flash-attn = { path = ".." }` and `use_flash_attn` they run our attention, unchanged.

use std::sync::{Mutex, PoisonError};

use attn_candle::{Attention, AttentionOptions, Dtype, Dtypes, Engine, Heads};
use candle_core::{DType, Device, Result, Tensor, bail};

/// Attentions that were bound before. A model has one or two.
static KNOWN: Mutex<Vec<(Device, Attention, Heads, Dtypes, f32, bool)>> = Mutex::new(Vec::new());

/// Attention of `q`, (batch, queries, heads, head dim), over `k` and `v`, (batch, keys, KV heads, head dim).
///
/// # Errors
///
/// Another type than f16, bf16 or f32, and what [`Attention::dense`] refuses.
pub fn flash_attn(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) -> Result<Tensor> {
    let ((_, _, qo, head_dim), (_, _, kv, _)) = (q.dims4()?, k.dims4()?);
    let heads = Heads { qo: qo as u32, kv: kv as u32, head_dim: head_dim as u32 };
    let dtype = match q.dtype() {
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::Bf16,
        DType::F32 => Dtype::F32,
        other => bail!("flash_attn takes f16, bf16 and f32, and q is of {other:?}"),
    };
    let dtypes = Dtypes::new(dtype, dtype);
    // the queries of a layer come transposed; its keys and values may lie as they like
    attention(q.device(), heads, dtypes, softmax_scale, causal)?.dense(&q.contiguous()?, k, v)
}

fn attention(device: &Device, heads: Heads, dtypes: Dtypes, scale: f32, causal: bool) -> Result<Attention> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is = |of: &&(Device, Attention, Heads, Dtypes, f32, bool)| {
        of.0.same_device(device) && (of.2, of.3, of.4, of.5) == (heads, dtypes, scale, causal)
    };
    if let Some(found) = known.iter().find(is) {
        return Ok(found.1.clone());
    }
    let options = AttentionOptions { sm_scale: Some(scale), ..AttentionOptions::default() };
    let variant = if causal { "causal" } else { "full" };
    let attention = Engine::new(device)?.attention_with(variant, heads, dtypes, options)?;
    known.push((device.clone(), attention.clone(), heads, dtypes, scale, causal));
    Ok(attention)
}
