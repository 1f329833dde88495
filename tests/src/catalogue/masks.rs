//! Rows 1 to 28: masks.

mod bands;
mod remapped;
mod tables;
mod variants;

use attn_core::lang::VariantDesc;

pub use variants::{AdaptiveSpan, DocumentOffsets, DraftTraining, EveryThird};

use super::Entry;

/// The entries of these rows.
pub fn entries() -> Vec<Entry> {
    [bands::entries(), tables::entries(), remapped::entries()].concat()
}

/// The variants of these rows that are not stock variants.
pub fn variants() -> &'static [&'static VariantDesc] {
    attn_core::variants![AdaptiveSpan, DocumentOffsets, DraftTraining, EveryThird]
}
