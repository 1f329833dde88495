//! Llama 4 (`llama4`, `llama4_text`). Layers with rotary embedding attend to their chunk, and normalise queries and
//! keys after it, without weights. Every fourth layer has no positions and full attention, and scales queries by a
//! temperature (after arXiv 2501.19399).

use super::{Layer, ModelError, config::Config, config::LayerMask, rope};
use crate::Variant;
use crate::stock::{QkNorm, Temperature};

pub(super) fn layers(config: &Config<'_>) -> Result<Vec<Layer>, ModelError> {
    let rotates = rotates(config)?;
    let sees = config.layer_types(|i| if rotates[i] { LayerMask::Chunk } else { LayerMask::All })?;
    let scaling = config.object("rope_parameters")?.or(config.object("rope_scaling")?);
    let given = scaling.as_ref().map_or(Ok(None), |own| own.above_zero("rope_theta"))?;
    let theta = given.or(config.above_zero("rope_theta")?).unwrap_or(500_000.0);
    // interleaved pairs
    let rope = rope::of(config, scaling.as_ref(), theta, true)?;
    let norm = match config.truth("use_qk_norm")?.unwrap_or(true) {
        true => QkNorm { eps: config.number("rms_norm_eps")?.unwrap_or(1e-5), ..QkNorm::default() }.into(),
        false => Variant::full(),
    };
    // understood also where they are off
    config.mark_read(&["floor_scale", "attn_scale"]);
    let temperature = match config.truth("attn_temperature_tuning")?.unwrap_or(true) {
        true => Temperature {
            floor_scale: config.length("floor_scale")?.unwrap_or(8192),
            attn_scale: config.number("attn_scale")?.unwrap_or(0.1),
        }
        .into(),
        false => Variant::full(),
    };
    sees.into_iter()
        .zip(rotates)
        .map(|(sees, rotates)| {
            let mask = config.mask(sees)?;
            Ok(match rotates {
                true => mask.and(rope.clone())?.and(norm.clone())?,
                false => mask.and(temperature.clone())?,
            }
            .into())
        })
        .collect()
}

/// Whether each layer has a rotary embedding: `no_rope_layers` holds 1 where it has one.
fn rotates(config: &Config<'_>) -> Result<Vec<bool>, ModelError> {
    let layers = config.layers()?;
    let given = config.list("no_rope_layers")?.filter(|list| !list.is_empty());
    let interval = config.positive("no_rope_layer_interval")?;
    let Some(given) = given else {
        let every = interval.unwrap_or(4) as usize;
        return Ok((0..layers).map(|i| (i + 1) % every != 0).collect());
    };
    let rotates: Vec<bool> = given.iter().map_while(serde_json::Value::as_i64).map(|x| x != 0).collect();
    match rotates.len() == layers && given.len() == layers {
        true => Ok(rotates),
        false => Err(ModelError::Type {
            field: "no_rope_layers".to_owned(),
            expected: "0 or 1 for each layer",
            got: format!("a list of {}", given.len()),
        }),
    }
}
