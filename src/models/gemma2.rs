//! Gemma 2 (`gemma2`, arXiv 2408.00118). Layers alternate between sliding window and full attention, starting with a
//! window. Logits have a soft cap and a scale from the configuration.

use super::{Layer, ModelError, config::Config, config::LayerMask, rope};
use crate::stock::SoftCap;

pub(super) fn layers(config: &Config<'_>) -> Result<Vec<Layer>, ModelError> {
    config.off("use_bidirectional_attention")?;
    let rope = rope::read(config, "full_attention", 10_000.0)?;
    let cap = config.above_zero("attn_logit_softcapping")?;
    let sm_scale = 1.0 / config.above_zero("query_pre_attn_scalar")?.unwrap_or(256.0).sqrt();
    let sees = config.layer_types(|i| if i % 2 == 0 { LayerMask::Window } else { LayerMask::All })?;
    sees.into_iter()
        .map(|sees| {
            let mut variant = config.mask(sees)?.and(rope.clone())?;
            if let Some(cap) = cap {
                variant = variant.and(SoftCap { cap })?;
            }
            Ok(Layer { variant, sm_scale: Some(sm_scale) })
        })
        .collect()
}
