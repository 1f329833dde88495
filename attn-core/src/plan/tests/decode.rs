//! Decode batches: how often a tile is classified.

use std::cell::Cell;

use super::*;

/// Counts classifications for queries in no particular order of length that see the keys that `keys` names.
fn calls(classify: impl Fn(Tile) -> TileClass, keys: impl Fn(i32) -> (i32, i32)) -> u32 {
    let kv: Vec<u32> = (0..200u32).map(|i| 1 + i * 7919 % 6000).collect();
    let layout = layout(&vec![1; kv.len()], &kv);
    let calls = Cell::new(0);
    let counted = |tile: Tile| {
        calls.set(calls.get() + 1);
        classify(tile)
    };
    let list = build_visible(&layout, 1, &RULE, &counted).expect("small");
    for item in list.items.iter().take(list.items.len()) {
        let (begin, end) = keys(item.kv_len);
        let blocks = (begin / 64 * 64, ((end as u32).next_multiple_of(64) as i32).min(item.kv_len));
        assert_eq!((item.kv_begin, item.kv_end), blocks, "{item:?}");
    }
    calls.get()
}

#[test]
fn a_window_takes_two_classes_a_tile_and_a_causal_mask_one() {
    let window = |tile: Tile| {
        let (oldest, newest) = (tile.qo_pos_max - tile.kv_pos_min, tile.qo_pos_min - tile.kv_pos_max);
        let kept = if oldest < 500 { TileClass::Full } else { TileClass::Partial };
        causal(tile).and(if newest >= 500 { TileClass::Skip } else { kept })
    };
    assert!(calls(window, |len| ((len - 500).max(0), len)) <= 2 * 200 + 40);
    assert_eq!(calls(causal, |len| (0, len)), 200);
}

#[test]
fn visible_keys_without_an_interval_are_found_too() {
    // every fourth key of the last 500: no tile of several keys is full
    let comb = |tile: Tile| {
        let gone = tile.qo_pos_min - tile.kv_pos_max >= 500;
        if gone { TileClass::Skip } else { TileClass::Partial }
    };
    let calls = calls(comb, |len| ((len - 500).max(0), len));
    assert!(calls < 200 * 12, "{calls}");
}

#[test]
fn wrong_guesses_do_not_change_the_list() {
    // chunks: the offset from a query to its first key differs from query to query
    let chunk = |tile: Tile| {
        let first = tile.qo_pos_min / 300 * 300;
        match (tile.kv_pos_min >= first, tile.kv_pos_max < first) {
            (true, _) => causal(tile),
            (_, true) => TileClass::Skip,
            _ => TileClass::Partial,
        }
    };
    calls(chunk, |len| ((len - 1) / 300 * 300, len));
}
