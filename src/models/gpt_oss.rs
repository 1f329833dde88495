//! gpt-oss (`gpt_oss`, arXiv 2508.10925): every other layer has a sliding window, the first one does; YaRN; a learnt sink for each head,
//! whose tensor is set layer by layer: `variant.set("logits", ..)`.

use super::{Layer, ModelError, config::Config, config::Sees, rope};
use crate::stock::{Sink, Yarn};

pub(super) fn layers(config: &Config<'_>) -> Result<Vec<Layer>, ModelError> {
    let sees = config.layer_types(|i| if i % 2 == 0 { Sees::Window } else { Sees::All })?;
    let rope = match config.field("rope_parameters").or(config.field("rope_scaling")) {
        Some(_) => rope::read(config, "full_attention", 150_000.0)?,
        // what the model has where its configuration says nothing
        None => Yarn {
            theta: config.number("rope_theta")?.unwrap_or(150_000.0),
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
