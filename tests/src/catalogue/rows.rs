//! Rows that transform logits, queries, keys, values, weights and outputs, that list their keys, or that form unions.

mod bias;
mod lists;
mod norm;
mod output;
mod rotary;
mod scale;
mod table;
mod unions;
mod weights;

pub use bias::{GridBias, KeyBias, LatentRope, WidePairBias};
pub use lists::BlockLists;
pub use norm::GroupDequant;
pub use output::Correction;
pub use scale::BlockScales;
pub use table::Table;
pub use unions::{ChunkKeys, ChunkQueries, FirstKeys, GroupedRope};
pub use weights::Gelu;

use attn_core::lang::VariantDesc;

use super::Entry;

/// The entries of these rows.
pub fn entries() -> Vec<Entry> {
    [
        bias::entries(),
        scale::entries(),
        weights::entries(),
        rotary::entries(),
        norm::entries(),
        output::entries(),
        lists::entries(),
        unions::entries(),
    ]
    .concat()
}

/// The variants that only these rows need.
pub fn variants() -> &'static [&'static VariantDesc] {
    attn_core::variants![
        BlockLists,
        BlockScales,
        ChunkKeys,
        ChunkQueries,
        Correction,
        FirstKeys,
        Gelu,
        GridBias,
        KeyBias,
        WidePairBias,
        GroupDequant,
        GroupedRope,
        LatentRope,
    ]
}
