//! gpt-oss (`gpt_oss`, arXiv 2508.10925). Layers alternate between sliding window and full attention, starting with a
//! window. YaRN. Each head has a learnt sink, whose tensor is set layer by layer: `variant.set("logits", ..)`.

use super::config::Config;
use super::text::{Class, LayerMask, Text};
use super::{Layer, ModelError, rope};
use crate::stock::Sink;

pub(super) static CLASS: Class = Class {
    num_hidden_layers: 36,
    hidden_size: 2880,
    num_attention_heads: 64,
    num_key_value_heads: Some(8),
    null_kv_heads: false,
    head_dim: Some(64),
    whole_heads: false,
    max_position_embeddings: 131_072,
    rope_theta: 150_000.0,
    interleaved: false,
};

pub(super) fn layers(text: &Text<'_>) -> Result<Vec<Layer>, ModelError> {
    let window = text.size("sliding_window", 128)?;
    let sees = text.layer_types(LayerMask::Window, |i| [LayerMask::Window, LayerMask::All][i % 2])?;
    let default = serde_json::json!({
        "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
        "original_max_position_embeddings": 4096,
    });
    let rope = rope::read(text, Some(&Config::new(&default)))?;
    sees.into_iter()
        .map(|sees| {
            let sink = Sink { logits: crate::lang::Tensor1::unset() };
            Ok(text.mask(sees, window).and(rope.clone())?.and(sink)?.into())
        })
        .collect()
}
