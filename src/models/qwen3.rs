//! Qwen3 (`qwen3`, arXiv 2505.09388): queries and keys are normalised, then rotated. If windows are on, layers from
//! `max_window_layers` on have one.

use super::config::{COUNT, NUMBER, TRUTH, WHOLE};
use super::text::{Class, LayerMask, Text};
use super::{Layer, ModelError, rope};
use crate::stock::QkNorm;

pub(super) static CLASS: Class = Class {
    num_hidden_layers: 32,
    hidden_size: 4096,
    num_attention_heads: 32,
    num_key_value_heads: Some(32),
    null_kv_heads: true,
    head_dim: Some(128),
    whole_heads: false,
    max_position_embeddings: 32_768,
    rope_theta: 10_000.0,
    interleaved: false,
};

pub(super) fn layers(text: &Text<'_>) -> Result<Vec<Layer>, ModelError> {
    let config = text.config;
    let on = config.given("use_sliding_window", &TRUTH)?.unwrap_or(false);
    let window = match on {
        true => text.size("sliding_window", 4096)?,
        // understood also where it is off
        false => config.or_null("sliding_window", &WHOLE)?.and(None),
    };
    let first = config.given("max_window_layers", &COUNT)?.unwrap_or(28);
    let default = |i| if window.is_some() && i as u64 >= first { LayerMask::Window } else { LayerMask::All };
    let sees = text.layer_types(LayerMask::Window, default)?;
    if !on && sees.contains(&LayerMask::Window) {
        let (field, known) = ("use_sliding_window".to_owned(), "true, where `layer_types` has sliding_attention");
        return Err(ModelError::Unsupported { field, got: "false".to_owned(), known });
    }
    let eps = config.given("rms_norm_eps", &NUMBER)?.unwrap_or(1e-6);
    let rope = rope::read(text, None)?;
    sees.into_iter()
        .map(|sees| {
            let norm = QkNorm { eps, ..QkNorm::default() };
            Ok(text.mask(sees, window).and(norm)?.and(rope.clone())?.into())
        })
        .collect()
}
