//! gpt-oss (`gpt_oss`, arXiv 2508.10925). Layers alternate between sliding window and full attention, starting with a
//! window. YaRN. Each head has a learnt sink, whose tensor is set layer by layer: `variant.set("logits", ..)`.

use super::{Layer, ModelError, config::Config, config::LayerMask, rope};
use crate::stock::{Sink, Yarn};

pub(super) fn layers(config: &Config<'_>) -> Result<Vec<Layer>, ModelError> {
    let sees = config.layer_types(|i| if i % 2 == 0 { LayerMask::Window } else { LayerMask::All })?;
    let rope = match config.field("rope_parameters").or(config.field("rope_scaling")) {
        Some(_) => rope::read(config, "full_attention", 150_000.0)?,
        // the model's defaults
        None => Yarn {
            theta: config.above_zero("rope_theta")?.unwrap_or(150_000.0),
            factor: 32.0,
            original_len: 4096,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: false,
            mscale: 0.1,
            interleaved: false,
            inv_freq: crate::lang::Tensor1::unset(),
        }
        .into(),
    };
    sees.into_iter()
        .map(|sees| {
            let sink = Sink { logits: crate::lang::Tensor1::unset() };
            Ok(config.mask(sees)?.and(rope.clone())?.and(sink)?.into())
        })
        .collect()
}
