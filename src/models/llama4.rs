//! Llama 4 (`llama4`, `llama4_text`). Layers with rotary embedding attend to their chunk, and normalise queries and
//! keys after it, without weights. Every fourth layer has no positions and full attention, and scales queries by a
//! temperature (after arXiv 2501.19399).

use super::config::{LENGTH, NUMBER, TRUTH, wrong};
use super::text::{Class, LayerMask, Text};
use super::{Layer, ModelError, rope};
use crate::Variant;
use crate::stock::{QkNorm, Temperature};

pub(super) static CLASS: Class = Class {
    num_hidden_layers: 48,
    hidden_size: 5120,
    num_attention_heads: 40,
    num_key_value_heads: Some(8),
    null_kv_heads: false,
    head_dim: Some(128),
    whole_heads: false,
    max_position_embeddings: 131_072,
    rope_theta: 500_000.0,
    interleaved: true,
};

pub(super) fn layers(text: &Text<'_>) -> Result<Vec<Layer>, ModelError> {
    let config = text.config;
    let rotates = rotates(text)?;
    let default = |i: usize| if rotates[i] { LayerMask::Chunk } else { LayerMask::All };
    let sees = text.layer_types(LayerMask::Chunk, default)?;
    let chunk = text.size("attention_chunk_size", 8192)?;
    let rope = rope::read(text, None)?;
    let eps = config.given("rms_norm_eps", &NUMBER)?.unwrap_or(1e-5);
    let norm = match config.given("use_qk_norm", &TRUTH)?.unwrap_or(true) {
        true => QkNorm { eps, ..QkNorm::default() }.into(),
        false => Variant::full(),
    };
    let floor_scale = config.given("floor_scale", &LENGTH)?.unwrap_or(8192);
    let attn_scale = config.given("attn_scale", &NUMBER)?.unwrap_or(0.1);
    let temperature = match config.given("attn_temperature_tuning", &TRUTH)?.unwrap_or(true) {
        true => Temperature { floor_scale, attn_scale }.into(),
        false => Variant::full(),
    };
    sees.into_iter()
        .zip(&rotates)
        .map(|(sees, rotates)| {
            let mask = text.mask(sees, chunk);
            Ok(match rotates {
                true => mask.and(rope.clone())?.and(norm.clone())?,
                false => mask.and(temperature.clone())?,
            }
            .into())
        })
        .collect()
}

/// Whether each layer has a rotary embedding: `no_rope_layers` holds 1 where it has one.
fn rotates(text: &Text<'_>) -> Result<Vec<bool>, ModelError> {
    let given = text.config.list("no_rope_layers")?.filter(|list| !list.is_empty());
    let every = text.config.given("no_rope_layer_interval", &LENGTH)?.unwrap_or(4) as usize;
    let Some(given) = given else {
        return Ok((0..text.layers).map(|i| !(i + 1).is_multiple_of(every)).collect());
    };
    let rotates: Vec<bool> = given.iter().map_while(serde_json::Value::as_i64).map(|x| x != 0).collect();
    match rotates.len() == text.layers && given.len() == text.layers {
        true => Ok(rotates),
        false => Err(wrong("no_rope_layers", "0 or 1 for each layer", format!("a list of {}", given.len()))),
    }
}
