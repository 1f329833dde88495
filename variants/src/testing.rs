//! Helpers of the unit tests.

use attn::lang::{
    AttentionVariant, Described, KvFormat, LogitIndex, Packed, PackedMut, QueryTile, RowIndex, Tile, TileClass,
};

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
pub(crate) fn check_tile_class(variant: &(impl AttentionVariant + Described)) -> usize {
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

/// The codes and side data of a row of the first KV head; bytes that nothing writes are 0xff.
pub(crate) fn encoded(format: &impl KvFormat, row: &[f32]) -> (Vec<u8>, Vec<u8>) {
    encoded_of(format, row, 0)
}

/// The codes and side data of a row of a KV head, for formats with parameters by head.
pub(crate) fn encoded_of(format: &impl KvFormat, row: &[f32], kv_head: i32) -> (Vec<u8>, Vec<u8>) {
    let dim = i32::try_from(row.len()).expect("few elements");
    let bytes = |n: i32| vec![0xff; usize::try_from(n).expect("a size")];
    let (mut codes, mut side) = (bytes(format.code_bytes(dim)), bytes(format.side_bytes(dim)));
    format.encode(&row, &mut PackedMut::new(&mut codes), &mut PackedMut::new(&mut side), kv_head);
    (codes, side)
}

/// The first `dim` elements of a stored row of the first KV head.
pub(crate) fn decoded(format: &impl KvFormat, codes: &[u8], side: &[u8], dim: i32) -> Vec<f32> {
    decoded_of(format, codes, side, dim, 0)
}

/// The first `dim` elements of a stored row of a KV head, for formats with parameters by head.
pub(crate) fn decoded_of(format: &impl KvFormat, codes: &[u8], side: &[u8], dim: i32, kv_head: i32) -> Vec<f32> {
    let eight = |d| format.decode(Packed::new(codes), Packed::new(side), kv_head, d);
    (0..dim).step_by(8).flat_map(eight).collect()
}
