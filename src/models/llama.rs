//! Llama 2 to 3.3 (`llama`): rotary embedding; from 3.1 on its frequencies are scaled for long contexts (arXiv
//! 2407.21783).

use super::{Layer, ModelError, config::Config, config::LayerMask, rope};

pub(super) fn layers(config: &Config<'_>) -> Result<Vec<Layer>, ModelError> {
    let rope = rope::read(config, "full_attention", 10_000.0)?;
    let variant = config.mask(LayerMask::All)?.and(rope)?;
    Ok(vec![variant.into(); config.layers()?])
}
