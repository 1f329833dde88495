//! Rows that rewrite logits, queries, keys, values, weights and outputs, that list their keys, or that split them into sets.

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
pub use output::{Correction, Differential};
pub use scale::BlockScales;
pub use table::Table;
pub use unions::{ChunkKeys, ChunkQueries, FirstKeys, GroupedRope};
pub use weights::Gelu;

use attn::lang::VariantDesc;
use attn_testing::Case;

use super::{At, Entry, cases};

/// The entries of these rows.
#[must_use]
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
#[must_use]
pub fn variants() -> &'static [&'static VariantDesc] {
    attn::variants![
        BlockLists,
        BlockScales,
        ChunkKeys,
        ChunkQueries,
        Correction,
        Differential,
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

/// Keys up to the query.
fn causal(at: &At) -> bool {
    at.j <= at.i
}

/// The usual batches without the longest, for what is as large as the logits.
fn short() -> Vec<Case> {
    cases::small().into_iter().filter(|case| case.kv_lens.to_vec().into_iter().all(|len| len <= 200)).collect()
}
