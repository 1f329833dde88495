//! Gemma 3 (`gemma3`, `gemma3_text`, arXiv 2503.19786). Five layers with a sliding window and a rotary base of their
//! own, then one with full attention. Queries and keys are normalised, with weights stored minus one, then rotated.

use super::{Layer, ModelError, config::Config, config::LayerMask, rope};
use crate::stock::QkNorm;

pub(super) fn layers(config: &Config<'_>) -> Result<Vec<Layer>, ModelError> {
    config.off("use_bidirectional_attention")?;
    let pattern = config.positive("_sliding_window_pattern")?;
    let pattern = config.positive("sliding_window_pattern")?.or(pattern).unwrap_or(6);
    let local_base = config.above_zero("rope_local_base_freq")?.unwrap_or(10_000.0);
    let sees =
        config.layer_types(|i| if (i + 1) % pattern as usize == 0 { LayerMask::All } else { LayerMask::Window })?;
    let global = rope::read(config, "full_attention", 1_000_000.0)?;
    let local = match config.object("rope_parameters")?.map_or(Ok(None), |all| all.object("sliding_attention"))? {
        Some(own) => rope::of(config, Some(&own), own.above_zero("rope_theta")?.unwrap_or(10_000.0), false)?,
        // `rope_scaling` applies to the layers with full attention
        None => rope::of(config, None, local_base, false)?,
    };
    let eps = config.number("rms_norm_eps")?.unwrap_or(1e-6);
    let sm_scale = 1.0 / config.above_zero("query_pre_attn_scalar")?.unwrap_or(256.0).sqrt();
    sees.into_iter()
        .map(|sees| {
            let norm = QkNorm { eps, offset: 1.0, ..QkNorm::default() };
            let rope = if sees == LayerMask::Window { &local } else { &global };
            let variant = config.mask(sees)?.and(norm)?.and(rope.clone())?;
            Ok(Layer { variant, sm_scale: Some(sm_scale) })
        })
        .collect()
}
