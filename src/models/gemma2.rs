//! Gemma 2 (`gemma2`, arXiv 2408.00118). Layers alternate between sliding window and full attention, starting with a
//! window. Logits have a soft cap and a scale from the configuration.

use super::config::{ABOVE_ZERO, LENGTH};
use super::text::{Class, LayerMask, Text};
use super::{Layer, ModelError, rope, understood};
use crate::stock::SoftCap;

pub(super) static CLASS: Class = Class {
    num_hidden_layers: 26,
    hidden_size: 2304,
    num_attention_heads: 8,
    num_key_value_heads: Some(4),
    null_kv_heads: false,
    head_dim: Some(256),
    whole_heads: true,
    max_position_embeddings: 8192,
    rope_theta: 10_000.0,
    interleaved: false,
};

pub(super) fn layers(text: &Text<'_>) -> Result<Vec<Layer>, ModelError> {
    let config = text.config;
    understood::off(config, "use_bidirectional_attention")?;
    let rope = rope::read(text, None)?;
    let cap = config.or_null("attn_logit_softcapping", &ABOVE_ZERO)?.unwrap_or(Some(50.0));
    let scalar = config.given("query_pre_attn_scalar", &LENGTH)?.unwrap_or(256);
    let window = text.size("sliding_window", 4096)?;
    let sees = text.layer_types(LayerMask::Window, |i| [LayerMask::Window, LayerMask::All][i % 2])?;
    sees.into_iter()
        .map(|sees| {
            let mut variant = text.mask(sees, window).and(rope.clone())?;
            if let Some(cap) = cap {
                variant = variant.and(SoftCap { cap })?;
            }
            Ok(Layer { variant, sm_scale: Some(1.0 / (scalar as f32).sqrt()) })
        })
        .collect()
}
