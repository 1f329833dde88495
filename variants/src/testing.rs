//! Helpers of the unit tests.

use attn::lang::{AttentionVariant, Described, LogitIndex, QueryTile, RowIndex, Tile, TileClass};

/// The logit of a query position and a key position.
pub(crate) fn at(qo_pos: i32, kv_pos: i32) -> LogitIndex {
    LogitIndex { row: RowIndex { qo_pos, ..RowIndex::default() }, kv_pos, ..LogitIndex::default() }
}

/// Whether a query attends to each of `kv_len` keys.
pub(crate) fn keys(variant: &impl AttentionVariant, qo_pos: i32, kv_len: i32) -> Vec<bool> {
    (0..kv_len).map(|kv_pos| variant.logits_mask(at(qo_pos, kv_pos))).collect()
}

/// Compares the derived class of every small tile with its logits. Panics where the class is unsound; returns how many
/// tiles it leaves unknown.
pub(crate) fn check_tile_class(variant: &impl Described) -> usize {
    let spans = || (0..9).flat_map(|min| (min..9).map(move |max| (min, max)));
    let mut unknown = 0;
    for (qo_pos_min, qo_pos_max) in spans() {
        for (kv_pos_min, kv_pos_max) in spans() {
            let rows = QueryTile { qo_pos_min, qo_pos_max, ..QueryTile::default() };
            let tile = Tile { rows, kv_pos_min, kv_pos_max, ..Tile::default() };
            let mut logits = (qo_pos_min..=qo_pos_max)
                .flat_map(|q| (kv_pos_min..=kv_pos_max).map(move |k| at(q, k)))
                .map(|at| variant.logits_mask(at));
            let truth = match (logits.clone().all(|x| x), logits.any(|x| x)) {
                (true, _) => TileClass::Full,
                (_, false) => TileClass::Skip,
                _ => TileClass::Partial,
            };
            let class = TileClass::from(variant.mask_over(&tile));
            assert!(class == truth || class == TileClass::Partial, "{tile:?}: {class:?} is not {truth:?}");
            unknown += usize::from(class != truth);
        }
    }
    unknown
}

/// The logit of a request whose tokens are its positions.
pub(crate) fn token_at(qo_pos: i32, kv_pos: i32) -> LogitIndex {
    LogitIndex {
        row: RowIndex { qo_pos, qo_row: qo_pos, qo_token: qo_pos, ..RowIndex::default() },
        kv_pos,
        kv_token: kv_pos,
        kv_slot: 0,
    }
}

/// Like [`keys`], for variants with tensors over tokens.
pub(crate) fn token_keys(variant: &impl AttentionVariant, qo_pos: i32, kv_len: i32) -> Vec<bool> {
    (0..kv_len).map(|kv_pos| variant.logits_mask(token_at(qo_pos, kv_pos))).collect()
}
