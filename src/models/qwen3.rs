//! Qwen3 (`qwen3`, arXiv 2505.09388): queries and keys are normalised, then rotated. If windows are on, layers from
//! `max_window_layers` on have one.

use super::{Layer, ModelError, config::Config, config::LayerMask, rope};
use crate::stock::QkNorm;

pub(super) fn layers(config: &Config<'_>) -> Result<Vec<Layer>, ModelError> {
    // understood also where it is off
    let window = config.field("sliding_window").is_some();
    let windows = config.truth("use_sliding_window")?.unwrap_or(false) && window;
    let first = config.positive("max_window_layers")?.map_or(28, |n| n as usize);
    let sees = config.layer_types(|i| if windows && i >= first { LayerMask::Window } else { LayerMask::All })?;
    let eps = config.number("rms_norm_eps")?.unwrap_or(1e-6);
    let rope = rope::read(config, "full_attention", 10_000.0)?;
    sees.into_iter()
        .map(|sees| {
            let norm = QkNorm { eps, ..QkNorm::default() };
            Ok(config.mask(sees)?.and(norm)?.and(rope.clone())?.into())
        })
        .collect()
}
