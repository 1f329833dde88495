//! Mistral 7B (`mistral`): rotary embedding; a sliding window in version 0.1 (arXiv 2310.06825), none from 0.2 on
//! (`sliding_window: null`).

use super::text::{Class, LayerMask, Text};
use super::{Layer, ModelError, rope};

pub(super) static CLASS: Class = Class {
    num_hidden_layers: 32,
    hidden_size: 4096,
    num_attention_heads: 32,
    num_key_value_heads: Some(8),
    null_kv_heads: false,
    head_dim: None,
    whole_heads: false,
    max_position_embeddings: 131_072,
    rope_theta: 10_000.0,
    interleaved: false,
};

pub(super) fn layers(text: &Text<'_>) -> Result<Vec<Layer>, ModelError> {
    let window = text.size("sliding_window", 4096)?;
    let variant = text.mask(LayerMask::Window, window).and(rope::read(text, None)?)?;
    Ok(vec![variant.into(); text.layers])
}
