//! What composed hooks compute, and tile classes.

use attn::Variant;
use attn::expr::Node;
use attn::lang::{Dims, Hook, KvIndex, LogitIndex, QueryTile, RowIndex, RowState, Tile, TileClass};

use crate::common::Even;
use crate::tree::{at, keys_of, valid};

#[test]
fn or_not_and_remap_combine_masks() {
    let row = at(5, 0).row;
    for (text, want) in [
        ("or(causal, even)", vec![0, 1, 2, 3, 4, 5, 6, 8]),
        ("not(causal)", vec![6, 7, 8, 9]),
        ("not(or(causal, even))", vec![7, 9]),
        ("or(causal + even, between(begin=8, end=10))", vec![0, 2, 4, 8, 9]),
        ("not(full)", vec![]),
        ("or(not(full), full)", (0..10).collect()),
        ("remap(blocks(size=4), even)", vec![4, 6]),
        ("remap(blocks(size=4), causal)", vec![4, 5]),
        ("remap(blocks(size=3), not(causal))", vec![]),
        ("union(even, causal)", vec![0, 1, 2, 3, 4, 5, 6, 8]),
        ("or(causal, even) + not(between(begin=2, end=4))", vec![0, 1, 4, 5, 6, 8]),
    ] {
        assert_eq!(keys_of(&valid(text), row, 10), want, "{text}");
    }
    let heads = valid("per_head(heads=[0, 1], causal, even)");
    assert_eq!(keys_of(&heads, RowIndex { qo_head: 0, ..row }, 8), [0, 1, 2, 3, 4, 5]);
    assert_eq!(keys_of(&heads, RowIndex { qo_head: 1, ..row }, 8), [0, 2, 4, 6]);
    assert_eq!(keys_of(&heads, RowIndex { qo_head: 9, ..row }, 8), [0, 2, 4, 6], "clamped");
    // longer than a chunk
    let long = keys_of(&valid("not(even)"), row, 1000);
    assert_eq!(long, (0..500).map(|i| 2 * i + 1).collect::<Vec<_>>());
    assert_eq!(keys_of(&valid("or(even, between(begin=300, end=302))"), row, 400).len(), 201);
}

#[test]
fn a_map_changes_the_positions_of_inner_parts_only() {
    let variant = valid("add_position + remap(blocks(size=4), add_position + soft_cap(cap=1000000))");
    let mut q = [0.0];
    variant.query_row(&mut q, at(6, 0).row);
    assert_eq!(q, [6.0 + 2.0]);
    let mut k = [0.0];
    variant.key_row(&mut k, KvIndex { kv_pos: 7, ..KvIndex::default() });
    assert_eq!(k, [7.0 + 3.0]);
    let mut logits = [0.0; 6];
    valid("remap(blocks(size=4), add_position)").logits_tile(&mut logits, at(6, 2));
    // the query has index 2 in its block; keys 2, 3 | 4, 5, 6, 7 are in two blocks
    assert_eq!(logits, [0.0, -1.0, 2.0, 1.0, 0.0, -1.0]);
}

#[test]
fn per_head_selects_every_hook() {
    let text = "per_head(heads=[0, 0, 1, 1], add_position + sink(logits=[0, 1, 2, 3]), twice)";
    let dims = Dims { qo_heads: Some(4), kv_heads: Some(2), ..Dims::default() };
    let variant = valid(text).bind(&dims).expect("two heads for each KV head");
    let row = |qo_head| RowIndex { qo_head, kv_head: qo_head / 2, qo_pos: 3, ..RowIndex::default() };
    let of = |head, hook: &dyn Fn(&Variant, &mut [f32], RowIndex)| {
        let mut x = [1.0];
        hook(&variant, &mut x, row(head));
        x[0]
    };
    let query = |v: &Variant, x: &mut [f32], at| v.query_row(x, at);
    let key = |v: &Variant, x: &mut [f32], at: RowIndex| {
        v.key_row(x, KvIndex { kv_pos: 5, kv_head: at.kv_head, ..KvIndex::default() });
    };
    let output =
        |v: &Variant, x: &mut [f32], at| v.output_row(x, RowState { row_max: 0.0, denominator: 1.0, lse: 0.0 }, at);
    assert_eq!([of(0, &query), of(2, &query)], [4.0, 1.0]);
    assert_eq!([of(1, &key), of(3, &key)], [6.0, 1.0]);
    assert_eq!([of(1, &output), of(3, &output)], [1.0, 2.0]);
    assert_eq!([variant.sink_logit(row(1)), variant.sink_logit(row(2))], [1.0, f32::NEG_INFINITY]);
    assert!(variant.has(Hook::SinkLogit) && variant.has(Hook::OutputTransform) && !variant.has(Hook::LogitsMask));
}

#[test]
fn a_union_splits_into_disjoint_branches() {
    let variant = valid("causal + union(even + add_position, between(begin=2, end=6), full) + soft_cap(cap=9)");
    let branches = variant.branches();
    assert_eq!(branches.len(), 3);
    assert!(variant.has_union() && branches.iter().all(|branch| !branch.has_union()));
    let row = at(7, 0).row;
    assert_eq!(keys_of(&branches[0], row, 10), [0, 2, 4, 6]);
    assert_eq!(keys_of(&branches[1], row, 10), [3, 5]);
    assert_eq!(keys_of(&branches[2], row, 10), [1, 7]);
    assert_eq!(keys_of(&variant, row, 10), [0, 1, 2, 3, 4, 5, 6, 7]);
    let keys = branches.iter().map(|branch| branch.has(Hook::KeyTransform)).collect::<Vec<_>>();
    assert_eq!(keys, [true, false, false], "a branch does not have the transforms of an earlier one");
    assert!(branches.iter().all(|branch| branch.has(Hook::LogitsTransform)));
    assert_eq!(valid("causal").branches(), [valid("causal")]);
    branches[2].bind(&Dims::default()).expect("a branch may be bound again");
}

#[test]
fn a_key_list_is_found_at_the_top_level() {
    let variant = valid("causal + first_blocks(blocks=3)");
    let row = RowIndex::default();
    assert_eq!(variant.kv_list_sizes(), Some((2, 1)));
    assert_eq!((variant.kv_list_len(row), variant.kv_list_block(row, 0)), (3, 2));
    assert!(variant.has_kv_list());
    let none = valid("causal");
    assert_eq!((none.has_kv_list(), none.kv_list_sizes(), none.kv_list_len(row)), (false, None, 0));
}

#[test]
fn key_ranges_combine_along_the_tree() {
    let (near, far) = ("between(begin=2, end=6)", "between(begin=4, end=9)");
    let all = (0, i32::MAX);
    for (text, want) in [
        (format!("{near} + {far}"), (4, 6)),
        (format!("per_head(heads=[0, 1], {near}, {far})"), (2, 9)),
        (format!("union({near}, {far})"), (2, 9)),
        (format!("not({near}) + {far}"), (4, 9)),
        (format!("or({near}, {far})"), all),
        (format!("remap(blocks(size=4), {near})"), all),
    ] {
        let tile = QueryTile { qo_head_max: 1, ..QueryTile::default() };
        assert_eq!(valid(&text).kv_range(tile), want, "{text}");
    }
    let tile = QueryTile { qo_head_min: 1, qo_head_max: 1, ..QueryTile::default() };
    assert_eq!(valid(&format!("per_head(heads=[0, 1], {near}, {far})")).kv_range(tile), (4, 9));
}

#[test]
fn classes_are_sound_for_every_key_of_a_tile() {
    let mut proven = 0;
    for text in [
        "causal",
        "not(causal)",
        "or(causal, between(begin=3, end=9))",
        "or(causal, not(causal))",
        "not(or(causal, between(begin=3, end=9)))",
        "between(begin=3, end=9) + not(even)",
        "remap(blocks(size=4), causal)",
        "remap(blocks(size=4), soft_cap(cap=1))",
        "per_head(heads=[0, 0, 1, 1], causal, not(causal))",
        "per_head(heads=[0, 0, 1, 1], causal, causal + even)",
        "union(causal, between(begin=8, end=12))",
        "not(full)",
    ] {
        let variant = valid(text);
        for (q, k, head) in (0..12).flat_map(|q| (0..12).flat_map(move |k| (0..4).map(move |h| (q, k, h)))) {
            let rows = QueryTile {
                qo_pos_min: q,
                qo_pos_max: q + 2,
                qo_row_min: q,
                qo_row_max: q + 2,
                qo_head_min: head,
                qo_head_max: (head + 1).min(3),
                ..QueryTile::default()
            };
            let tile = Tile { rows, kv_pos_min: k, kv_pos_max: k + 3, kv_token_min: k, kv_token_max: k + 3 };
            let class = variant.tile_class(tile);
            proven += usize::from(class != TileClass::Partial);
            for (qo_pos, qo_head) in (q..=q + 2).flat_map(|q| [(q, head), (q, (head + 1).min(3))]) {
                let mut keep = [true; 4];
                let row = RowIndex { qo_pos, qo_row: qo_pos, qo_head, ..RowIndex::default() };
                variant.mask_tile(&mut keep, LogitIndex { row, kv_pos: k, kv_token: k, kv_slot: 0 });
                match class {
                    TileClass::Skip => assert_eq!(keep, [false; 4], "{text}: {tile:?}"),
                    TileClass::Full => assert_eq!(keep, [true; 4], "{text}: {tile:?}"),
                    TileClass::Partial => {}
                }
            }
        }
    }
    assert!(proven > 500, "{proven}");
    assert_eq!(
        Variant::from(Node::or(vec![Even.into(), Variant::full()])).tile_class(Tile::default()),
        TileClass::Full
    );
}
