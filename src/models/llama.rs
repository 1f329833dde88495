//! Llama 2 to 3.3 (`llama`): rotary embedding; from 3.1 on its frequencies are scaled for long contexts (arXiv
//! 2407.21783).

use super::text::{Class, LayerMask, Text};
use super::{Layer, ModelError, rope};

pub(super) static CLASS: Class = Class {
    num_hidden_layers: 32,
    hidden_size: 4096,
    num_attention_heads: 32,
    num_key_value_heads: None,
    null_kv_heads: true,
    head_dim: None,
    whole_heads: true,
    max_position_embeddings: 2048,
    rope_theta: 10_000.0,
    interleaved: false,
};

pub(super) fn layers(text: &Text<'_>) -> Result<Vec<Layer>, ModelError> {
    let variant = text.mask(LayerMask::All, None).and(rope::read(text, None)?)?;
    Ok(vec![variant.into(); text.layers])
}
