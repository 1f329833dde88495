//! What is planned for variants with ranges, lists and unions.

use attn::batch::{Batch, Layout, indptr};
use attn::expr::Node;
use attn::lang::{AttentionVariant, LogitIndex, QueryTile, RowIndex};
use attn::plan::{PlanError, PlanRule, WorkItem, WorkList};
use attn::spec::Heads;
use attn::{Variant, VariantParams, attention_variant};

use super::variants::{Band, Blocks, Near, Nothing};

const HEADS: Heads = Heads { qo: 6, kv: 2, head_dim: 16 };
const RULE: PlanRule = PlanRule { tile_rows: 16, kv_align: 8, target_items: 0, min_span: 8, longest_first: false };

fn layout(qo: &[u32], kv: &[u32]) -> Layout {
    let (qo, kv) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
    Batch::ragged(&qo, &kv).validate().expect("sound")
}

fn plan(variant: &Variant, layout: &Layout, rule: &PlanRule) -> WorkList {
    let work = WorkList::build_for(variant, layout, HEADS, rule).expect("small");
    assert_eq!(work.check(layout), Ok(()));
    assert_eq!(WorkList::build_for(variant, layout, HEADS, rule).as_ref(), Ok(&work), "the same every time");
    work
}

#[test]
fn a_range_of_keys_cuts_the_spans() {
    let layout = layout(&[200], &[200]);
    let work = plan(&Near { reach: 20 }.into(), &layout, &RULE);
    assert_eq!(work.items.len(), (200 * 3_usize).div_ceil(16));
    for item in &work.items {
        let (first, last) = (item.first_row / 3, (item.first_row + item.rows - 1) / 3);
        assert_eq!(item.kv_begin, (first - 20).max(0) / 8 * 8, "{item:?}");
        assert_eq!(item.kv_end, ((last + 21).min(200) as u32).next_multiple_of(8).min(200) as i32, "{item:?}");
    }
}

#[test]
fn a_range_may_look_at_one_head_alone() {
    /// KV head `h` has keys from `50 h` on, which `kv_range` says with the first head of its tile.
    #[derive(Clone, Copy, VariantParams)]
    struct FromHead;
    #[attention_variant(name = "from_head")]
    impl AttentionVariant for FromHead {
        fn logits_mask(&self, at: LogitIndex) -> bool {
            at.kv_pos >= 50 * at.kv_head
        }
        fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
            (50 * tile.kv_head_max, 100 - 50 * tile.kv_head_min + 50)
        }
    }
    // head 0 promises 0 .. 150, head 1 promises 50 .. 100: planned for both is 0 .. 150
    let work = plan(&FromHead.into(), &layout(&[1], &[200]), &RULE);
    assert_eq!((work.items[0].kv_begin, work.items[0].kv_end), (0, 152));
}

#[test]
fn tiles_keep_to_the_queries_of_one_list_and_spans_to_its_length() {
    let layout = layout(&[8, 0, 1], &[300, 5, 3]);
    for tile_rows in [4, 9, 16] {
        let work = plan(&Blocks.into(), &layout, &PlanRule { tile_rows, target_items: 0, ..RULE });
        assert!(work.lists);
        let mut row = [0, 0, 0];
        for item in &work.items {
            assert_eq!(item.first_row, row[item.request as usize]);
            row[item.request as usize] += item.rows;
            let run = item.first_row / 9; // 3 queries of 3 heads
            assert_eq!((item.first_row + item.rows - 1) / 9, run, "{item:?} straddles");
            // the longer list of the two KV heads, in keys; not cut to the keys that there are
            let blocks = (0..2).map(|kv_head| 5 + (run + kv_head + item.request) % 4).max().expect("two");
            assert_eq!((item.kv_begin, item.kv_end), (0, 4 * blocks));
        }
        assert_eq!(row, [24, 0, 3]);
    }
    let split = plan(&Blocks.into(), &layout, &PlanRule { target_items: 100, ..RULE });
    assert!(split.merges.len() == 4 && split.items.iter().all(|item| item.kv_begin % 8 == 0));
}

#[test]
fn lists_of_too_many_keys_are_refused() {
    #[derive(Clone, Copy, VariantParams)]
    struct Endless;
    #[attention_variant(name = "endless")]
    impl AttentionVariant for Endless {
        fn kv_list_len(&self, _at: RowIndex) -> i32 {
            2_000_000_000
        }
        fn kv_list_block_size(&self) -> i32 {
            2
        }
    }
    let error = WorkList::build_for(&Endless.into(), &layout(&[1], &[4]), HEADS, &RULE);
    assert_eq!(error, Err(PlanError::TooMany { what: "virtual keys of one list", value: 4_000_000_000 }));
}

#[test]
fn arms_of_a_union_share_the_slots_of_a_tile() {
    let layout = layout(&[30, 2], &[30, 100]);
    let arms = vec![Band { window: 9 }.into(), Nothing.into(), Near { reach: 40 }.into()];
    for target_items in [0, 64] {
        for longest_first in [false, true] {
            let rule = PlanRule { target_items, longest_first, ..RULE };
            let work = plan(&Node::union(arms.clone()).into(), &layout, &rule);
            let arms: Vec<_> = work.arms().map(|range| &work.items[range]).collect();
            assert_eq!(arms.iter().map(|arm| arm.len()).sum::<usize>(), work.items.len());
            assert!(arms.len() == 3 && !arms[0].is_empty() && !arms[2].is_empty());
            let mut slots: Vec<_> = work.items.iter().map(|item| item.partial).collect();
            slots.sort_unstable();
            assert_eq!(slots, (0..work.slots as i32).collect::<Vec<_>>(), "every item has a slot of its own");
            assert_eq!(work.merges.len(), 6 + 1, "one for each tile");
            for merge in &work.merges {
                let of = |item: &&WorkItem| (merge.first..merge.first + merge.count).contains(&item.partial);
                let rows = |item: &WorkItem| (item.request, item.first_row, item.rows);
                assert!(work.items.iter().filter(of).all(|i| rows(i) == (merge.request, merge.first_row, merge.rows)));
            }
        }
    }
}

#[test]
fn a_tile_that_no_arm_sees_is_written_all_the_same() {
    let union = Node::union(vec![Near { reach: -1 }.into(), Near { reach: -1 }.into()]);
    let work = plan(&union.into(), &layout(&[1], &[0]), &RULE);
    let item = |item: &WorkItem| (item.kv_begin, item.kv_end, item.partial);
    assert_eq!(work.items.iter().map(item).collect::<Vec<_>>(), [(0, 0, 0)]);
    assert_eq!((work.arm_items.as_slice(), work.merges.len()), (&[1, 0][..], 1));
}
