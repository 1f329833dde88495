//! Fields that change attention: one that the reader of a family did not read, and that is not at the value that
//! changes nothing, is refused. Without this a model would run with another attention than its own.

use serde_json::Value;

use super::config::{Config, TRUTH};
use super::{ModelError, error::shown};

/// Whether a value changes nothing.
type Neutral = fn(&Value) -> bool;

/// Names of fields, the values that change nothing, and these in words.
const FIELDS: [(&str, Neutral, &str); 7] = [
    (
        "attention_bias_type attention_chunk_size attention_multiplier attention_type attn_logit_softcapping \
         attn_scale dual_chunk_attention_config global_attn_every_n_layers interleaved_sliding_window kv_lora_rank \
         local_rope_theta logits_soft_cap mrope_section no_rope_layer_interval qk_rope_head_dim query_pre_attn_scalar \
         rope_local_base_freq rope_parameters rope_scaling rope_theta rotary_dim rotary_emb_base sliding_window \
         sliding_window_pattern sparse_attention_config text_config v_head_dim",
        |_| false,
        "no value",
    ),
    (
        "alibi attention_sink attention_sinks attn_temperature_tuning qk_layernorm qk_norm rope_interleave \
         rope_interleaved use_alibi use_bidirectional_attention use_qk_norm use_sliding_window",
        |value| value == &Value::Bool(false) || value.as_f64() == Some(0.0),
        "false",
    ),
    ("is_causal", |value| value == &Value::Bool(true), "true"),
    ("partial_rotary_factor rope_percent rotary_pct", |value| value.as_f64() == Some(1.0), "1"),
    ("cross_attention_layers no_rope_layers", |value| value.as_array().is_some_and(Vec::is_empty), "an empty list"),
    ("per_layer_config", |value| value.as_object().is_some_and(serde_json::Map::is_empty), "an empty object"),
    (
        "layer_types",
        |value| value.as_array().is_some_and(|layers| layers.iter().all(|kind| kind == "full_attention")),
        "a list of full_attention",
    ),
];

/// Refuses what a family has not read of its configuration.
pub(super) fn check(config: &Config<'_>) -> Result<(), ModelError> {
    for (name, value) in config.unread() {
        if let Some((_, _, known)) = listed(name).filter(|(_, neutral, _)| !neutral(value)) {
            return Err(ModelError::Unsupported { field: name.to_owned(), got: shown(value), known });
        }
    }
    Ok(())
}

/// Refuses what is left unread of the parameters of a rotary embedding: each of them changes it.
pub(super) fn check_rope(scaling: &Config<'_>) -> Result<(), ModelError> {
    check(scaling)?;
    // notes about the training, and what `check` has accepted
    let unused = ["finetuned", "original_max_position_embeddings", "partial_rotary_factor"];
    match scaling.unread().find(|(name, _)| !unused.contains(name)) {
        Some((name, value)) => {
            let known = "no value, for this `rope_type`";
            Err(ModelError::Unsupported { field: name.to_owned(), got: shown(value), known })
        }
        None => Ok(()),
    }
}

/// Refuses fields of the text model beside a `text_config` that is not there: the class takes its defaults then.
pub(super) fn check_beside(whole: &Config<'_>, text: &Config<'_>) -> Result<(), ModelError> {
    match whole.unread().find(|(name, _)| text.was_read(name) || listed(name).is_some()) {
        Some((name, value)) => {
            let (field, known) = (name.to_owned(), "no value here; fields of the text model are in `text_config`");
            Err(ModelError::Unsupported { field, got: shown(value), known })
        }
        None => Ok(()),
    }
}

/// Refuses a boolean setting that is on.
pub(super) fn off(config: &Config<'_>, name: &str) -> Result<(), ModelError> {
    match config.or_null(name, &TRUTH)?.flatten() {
        Some(true) => Err(ModelError::Unsupported { field: name.to_owned(), got: "true".to_owned(), known: "false" }),
        _ => Ok(()),
    }
}

fn listed(name: &str) -> Option<&'static (&'static str, Neutral, &'static str)> {
    FIELDS.iter().find(|(names, ..)| names.split_whitespace().any(|field| field == name))
}
