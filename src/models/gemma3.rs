//! Gemma 3 (`gemma3`, `gemma3_text`, arXiv 2503.19786). Five layers with a sliding window and a rotary base of their
//! own, then one with full attention. Queries and keys are normalised, with weights stored minus one, then rotated.
//! The text model alone may attend to both sides (EmbeddingGemma), half of its window to each.

use super::config::{LENGTH, NUMBER, TRUTH, WHOLE};
use super::text::{Class, LayerMask, Text};
use super::{Layer, ModelError, rope, understood};
use crate::Variant;
use crate::stock::{BidirectionalWindow, QkNorm};

pub(super) static CLASS: Class = Class {
    num_hidden_layers: 26,
    hidden_size: 2304,
    num_attention_heads: 8,
    num_key_value_heads: Some(4),
    null_kv_heads: false,
    head_dim: Some(256),
    whole_heads: true,
    max_position_embeddings: 131_072,
    rope_theta: 1_000_000.0,
    interleaved: false,
};

/// The multimodal model, whose masks are its own.
pub(super) fn multimodal_layers(text: &Text<'_>) -> Result<Vec<Layer>, ModelError> {
    understood::off(text.config, "use_bidirectional_attention")?;
    layers(text)
}

pub(super) fn layers(text: &Text<'_>) -> Result<Vec<Layer>, ModelError> {
    let config = text.config;
    let both_sides = config.or_null("use_bidirectional_attention", &TRUTH)?.flatten().unwrap_or(false);
    let window = text.size("sliding_window", 4096)?;
    let mask = |sees| match (both_sides, sees, window) {
        (true, LayerMask::Window, Some(window)) => {
            // the class's window is `window / 2 + 1`, its mask excludes that distance if the model is causal
            let reach = window / 2 + i32::from(!text.causal);
            Ok(BidirectionalWindow { left: reach, right: reach }.into())
        }
        (true, _, None) => {
            let expected = "a whole number above 0, where `use_bidirectional_attention` is on";
            Err(super::config::wrong("sliding_window", expected, "null".to_owned()))
        }
        (true, ..) => Ok(Variant::full()),
        (false, ..) => Ok(text.mask(sees, window)),
    };
    let sees = sees(text)?;
    let [global, local] = rope::of_kinds(text)?;
    let eps = config.given("rms_norm_eps", &NUMBER)?.unwrap_or(1e-6);
    let scalar = config.given("query_pre_attn_scalar", &LENGTH)?.unwrap_or(256);
    sees.into_iter()
        .map(|sees| {
            let norm = QkNorm { eps, offset: 1.0, ..QkNorm::default() };
            let rope = if sees == LayerMask::Window { &local } else { &global };
            let variant = mask(sees)?.and(norm)?.and(rope.clone())?;
            Ok(Layer { variant, sm_scale: Some(1.0 / (scalar as f32).sqrt()) })
        })
        .collect()
}

/// The kinds of layers: `layer_types`, else every layer at the end of a pattern attends to all keys.
fn sees(text: &Text<'_>) -> Result<Vec<LayerMask>, ModelError> {
    let config = text.config;
    config.mark_read(&["sliding_window_pattern", "_sliding_window_pattern"]);
    if config.list("layer_types")?.is_some() {
        return text.layer_types(LayerMask::Window, |_| LayerMask::All);
    }
    let pattern = config.given("sliding_window_pattern", &LENGTH)?.unwrap_or(6) as usize;
    // the class writes this name beside `layer_types`, and does not read it
    let written = config.or_null("_sliding_window_pattern", &WHOLE)?.flatten();
    if let Some(written) = written.filter(|&written| written != pattern as i64) {
        let (field, known) = ("_sliding_window_pattern".to_owned(), "`sliding_window_pattern`, or `layer_types`");
        return Err(ModelError::Unsupported { field, got: written.to_string(), known });
    }
    text.layer_types(LayerMask::Window, |i| match (i + 1) % pattern {
        0 => LayerMask::All,
        _ => LayerMask::Window,
    })
}
