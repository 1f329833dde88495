//! Mistral 7B (`mistral`): rotary embedding; a sliding window in version 0.1 (arXiv 2310.06825), none from 0.2 on
//! (`sliding_window: null`).

use super::{Layer, ModelError, config::Config, config::LayerMask, rope};

pub(super) fn layers(config: &Config<'_>) -> Result<Vec<Layer>, ModelError> {
    let sees = if config.field("sliding_window").is_some() { LayerMask::Window } else { LayerMask::All };
    let rope = rope::read(config, "full_attention", 10_000.0)?;
    let variant = config.mask(sees)?.and(rope)?;
    Ok(vec![variant.into(); config.layers()?])
}
