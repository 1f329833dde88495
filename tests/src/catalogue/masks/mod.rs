//! Rows 1 to 28: masks.

mod bands;

use attn::lang::VariantDesc;

use super::Entry;

/// The entries of these rows.
#[must_use]
pub fn entries() -> Vec<Entry> {
    [bands::entries()].concat()
}

/// Variants that are no stock variants.
#[must_use]
pub fn variants() -> &'static [&'static VariantDesc] {
    &[]
}
