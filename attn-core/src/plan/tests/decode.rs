//! Decode batches: what is asked about a tile.

use std::cell::Cell;

use super::*;

/// Queries of lengths in no order see the last 500 keys, the first few, or all.
fn asked(classify: impl Fn(Tile) -> TileClass, keys: impl Fn(i32) -> (i32, i32)) -> u32 {
    let kv: Vec<u32> = (0..200u32).map(|i| 1 + i * 7919 % 6000).collect();
    let layout = layout(&vec![1; kv.len()], &kv);
    let asked = Cell::new(0);
    let counted = |tile: Tile| {
        asked.set(asked.get() + 1);
        classify(tile)
    };
    let list = WorkList::build_visible(&layout, 1, &RULE, &counted).expect("small");
    for item in list.items.iter().take(list.items.len()) {
        let (begin, end) = keys(item.kv_len);
        let blocks = (begin / 64 * 64, ((end as u32).next_multiple_of(64) as i32).min(item.kv_len));
        assert_eq!((item.kv_begin, item.kv_end), blocks, "{item:?}");
    }
    asked.get()
}

#[test]
fn two_questions_find_the_keys_of_a_window_and_one_all() {
    let window = |tile: Tile| {
        let (oldest, newest) = (tile.qo_pos_max - tile.kv_pos_min, tile.qo_pos_min - tile.kv_pos_max);
        let kept = if oldest < 500 { TileClass::Full } else { TileClass::Partial };
        causal(tile).and(if newest >= 500 { TileClass::Skip } else { kept })
    };
    assert!(asked(window, |len| ((len - 500).max(0), len)) <= 2 * 200 + 40);
    assert_eq!(asked(causal, |len| (0, len)), 200);
}

#[test]
fn keys_that_are_no_interval_are_found_all_the_same() {
    // every fourth key of the last 500: no tile of several keys is full
    let comb = |tile: Tile| {
        let gone = tile.qo_pos_min - tile.kv_pos_max >= 500;
        if gone { TileClass::Skip } else { TileClass::Partial }
    };
    let asked = asked(comb, |len| ((len - 500).max(0), len));
    assert!(asked < 200 * 12, "{asked}");
}

#[test]
fn wrong_guesses_cost_time_alone() {
    // chunks: where keys begin is as far from each query as it happens to be
    let chunk = |tile: Tile| {
        let first = tile.qo_pos_min / 300 * 300;
        match (tile.kv_pos_min >= first, tile.kv_pos_max < first) {
            (true, _) => causal(tile),
            (_, true) => TileClass::Skip,
            _ => TileClass::Partial,
        }
    };
    asked(chunk, |len| ((len - 1) / 300 * 300, len));
}
