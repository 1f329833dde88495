//! What every text model has: the defaults of its class, its heads, and the keys that each layer attends to.

use super::config::{Config, Kind, LENGTH, TRUTH, wrong};
use super::{ModelError, error::shown};
use crate::stock::{BidirectionalWindow, Causal, Chunked, SlidingWindow};
use crate::{Heads, Variant};

/// The most layers of a model. Larger numbers are mistakes, for which nothing is allocated.
const LAYERS: Kind<u32> = Kind { expected: "a whole number from 1 to 1024", read: |value| at_most(value, 1024) };

/// The most heads, and the largest head dimension. Rotary frequencies are tables of half a head.
const SIZE: Kind<u32> = Kind { expected: "a whole number from 1 to 65536", read: |value| at_most(value, 1 << 16) };

fn at_most(value: &serde_json::Value, most: u32) -> Option<u32> {
    value.as_u64().and_then(|x| u32::try_from(x).ok()).filter(|x| (1..=most).contains(x))
}

/// The defaults of a class of Hugging Face's transformers (5.17), which fields that are left out have.
pub(super) struct Class {
    pub(super) num_hidden_layers: u32,
    pub(super) hidden_size: i32,
    pub(super) num_attention_heads: u32,
    /// As many as query heads where there is none.
    pub(super) num_key_value_heads: Option<u32>,
    /// Whether `null` is as many as query heads; it is an error elsewhere.
    pub(super) null_kv_heads: bool,
    /// `hidden_size / num_attention_heads` where there is none, which `null` is then too; it is an error elsewhere.
    pub(super) head_dim: Option<u32>,
    /// Whether the class refuses a `hidden_size` that is no multiple of the heads.
    pub(super) whole_heads: bool,
    pub(super) max_position_embeddings: i32,
    pub(super) rope_theta: f32,
    /// Whether rotated pairs are adjacent elements.
    pub(super) interleaved: bool,
}

/// The keys that a layer attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerMask {
    /// All earlier keys.
    All,
    /// The keys of a sliding window.
    Window,
    /// The keys of its chunk.
    Chunk,
}

/// A text model, as far as all families read it.
pub(super) struct Text<'a> {
    pub(super) config: &'a Config<'a>,
    pub(super) class: &'static Class,
    pub(super) layers: usize,
    pub(super) heads: Heads,
    /// Whether tokens attend to earlier ones alone: `is_causal`, which is true where it is left out, and else what
    /// Python takes for true.
    pub(super) causal: bool,
}

impl<'a> Text<'a> {
    pub(super) fn read(config: &'a Config<'a>, class: &'static Class) -> Result<Self, ModelError> {
        let layers = config.given("num_hidden_layers", &LAYERS)?.unwrap_or(class.num_hidden_layers);
        let causal = config.or_null("is_causal", &TRUTH)?.unwrap_or(Some(true)).unwrap_or(false);
        Ok(Text { config, class, layers: layers as usize, heads: heads(config, class)?, causal })
    }

    /// The keys of each layer: `layer_types`, else the default of the family. `windowed` is what layers of the other
    /// kind attend to.
    pub(super) fn layer_types(
        &self,
        windowed: LayerMask,
        default: impl Fn(usize) -> LayerMask,
    ) -> Result<Vec<LayerMask>, ModelError> {
        let Some(given) = self.config.list("layer_types")? else {
            return Ok((0..self.layers).map(default).collect());
        };
        if given.len() != self.layers {
            return Err(wrong("layer_types", "one text for each layer", format!("a list of {}", given.len())));
        }
        let (name, known) = match windowed {
            LayerMask::Chunk => ("chunked_attention", "full_attention, chunked_attention"),
            _ => ("sliding_attention", "full_attention, sliding_attention"),
        };
        let one = |(i, value): (usize, &serde_json::Value)| match value.as_str() {
            Some("full_attention") => Ok(LayerMask::All),
            Some(kind) if kind == name => Ok(windowed),
            _ => {
                let got = shown(value).trim_matches('"').to_owned();
                Err(ModelError::Unsupported { field: format!("layer_types[{i}]"), got, known })
            }
        };
        given.iter().enumerate().map(one).collect()
    }

    /// `sliding_window` or `attention_chunk_size`; `None`, which is `null`, for layers without one.
    pub(super) fn size(&self, name: &str, default: i32) -> Result<Option<i32>, ModelError> {
        Ok(self.config.or_null(name, &LENGTH)?.unwrap_or(Some(default)))
    }

    /// The mask of a layer whose window or chunk has this size. Windows of models that are not causal reach as far to
    /// both sides; chunks are causal in any model.
    pub(super) fn mask(&self, sees: LayerMask, size: Option<i32>) -> Variant {
        match (sees, size, self.causal) {
            (LayerMask::Chunk, Some(chunk), _) => crate::compose!(Causal, Chunked { chunk }),
            (LayerMask::Window, Some(window), true) => crate::compose!(Causal, SlidingWindow { window }),
            (LayerMask::Window, Some(window), false) => BidirectionalWindow { left: window, right: window }.into(),
            (_, _, true) => Causal.into(),
            (_, _, false) => Variant::full(),
        }
    }
}

fn heads(config: &Config<'_>, class: &Class) -> Result<Heads, ModelError> {
    let hidden = config.given("hidden_size", &LENGTH)?.unwrap_or(class.hidden_size);
    let qo = config.given("num_attention_heads", &SIZE)?.unwrap_or(class.num_attention_heads);
    let kv = match class.null_kv_heads {
        true => config.or_null("num_key_value_heads", &SIZE)?.unwrap_or(class.num_key_value_heads),
        false => Some(config.given("num_key_value_heads", &SIZE)?.or(class.num_key_value_heads).unwrap_or(qo)),
    }
    .unwrap_or(qo);
    let head_dim = match class.head_dim {
        Some(default) => config.given("head_dim", &SIZE)?.unwrap_or(default),
        None => match config.or_null("head_dim", &SIZE)?.flatten() {
            Some(given) => given,
            None => hidden.cast_unsigned() / qo,
        },
    };
    if class.whole_heads && !hidden.cast_unsigned().is_multiple_of(qo) {
        return Err(wrong("hidden_size", "a multiple of `num_attention_heads`", format!("{hidden} for {qo} heads")));
    }
    if !qo.is_multiple_of(kv) {
        let got = format!("{kv} for {qo} heads");
        return Err(wrong("num_key_value_heads", "a divisor of `num_attention_heads`", got));
    }
    // halves of a head are rotated
    if head_dim == 0 || !head_dim.is_multiple_of(2) {
        return Err(wrong("head_dim", "an even number above 0", head_dim.to_string()));
    }
    Ok(Heads { qo, kv, head_dim })
}
