//! Endless text: each token attends to the first tokens, the sinks, and to a window of the last ones (StreamingLLM,
//! arXiv 2309.17453).
//!
//! Keys are stored without rotation. They are rotated by their positions in the *cache*, which count the kept tokens
//! alone, so that positions never exceed those of training. Two forms give the same logits: attention kernels that
//! rotate keys when they load them, and a pass of its own before attention, which is what systems without such kernels
//! do ([`KeyRotation`]).
//!
//! Page tables may have absolute positions, with released pages in between ([`Sequence::window`]), or kept pages alone
//! ([`Streaming::forget`]), which have the same size however long the text is.

mod rotation;

pub use rotation::KeyRotation;

use attn::Variant;
use attn_cache::Sequence;

use super::{Endless, config::LlamaConfig};
use crate::Error;

/// Endless text with one window for all sequences, to the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streaming {
    /// The tokens that are kept.
    pub kept: Endless,
    /// Whether attention kernels rotate keys; else a pass of its own does.
    pub fused: bool,
}

impl Streaming {
    /// Four sinks, as in the paper, and a window; keys are rotated in the attention kernels.
    #[must_use]
    pub fn with_window(window: usize) -> Self {
        Streaming { kept: Endless { sinks: 4, window }, fused: true }
    }

    /// Releases the pages that the next tokens of a sequence do not see, and takes them out of its page table.
    pub fn forget(&self, sequence: &mut Sequence) {
        sequence.window(self.kept.window, self.kept.sinks);
        sequence.compact();
    }

    /// Entries of a page table of kept pages, at most, where a step has up to `new` tokens of a sequence.
    #[must_use]
    pub fn kept_pages(&self, page_size: usize, new: usize) -> usize {
        // the window and the new tokens, with the rest of the page before them
        self.kept.sinks.div_ceil(page_size) + (self.kept.window + new).div_ceil(page_size) + 1
    }

    /// The attention of a model.
    pub(super) fn variant(&self, config: &LlamaConfig) -> Result<Variant, Error> {
        let Endless { sinks, window } = self.kept;
        let rope = rope(config);
        let text = format!(
            "streaming(sink={sinks}, window={window}) + remap(cache_positions(sink={sinks}, window={window}), {rope})"
        );
        Ok(Variant::parse(&text).map_err(attn::Error::from)?)
    }
}

/// The rotary embedding of a model, as an expression.
pub(super) fn rope(config: &LlamaConfig) -> String {
    format!("rope(theta={}, interleaved=true)", config.rope_theta)
}
