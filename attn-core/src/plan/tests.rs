//! Invariants of work lists: every visible key is read once, and schedules balance as they say.

mod capacity;
mod decode;
mod own_sms;
mod search;
mod stream_k;

use super::{cut_tiles::TileCutter, tile::TileRows, visible::VisibleBlockFinder, *};
use crate::Variant;
use crate::batch::{Batch, Layout, PageTableBuf, indptr};
use crate::lang::{Tile, TileClass};
use crate::spec::Heads;
use proptest::prelude::*;
use std::ops::Range;

fn layout(qo: &[u32], kv: &[u32]) -> Layout {
    let (qo, kv) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
    Batch::ragged(&qo, &kv).validate().expect("sound")
}

fn heads(group: u32) -> Heads {
    Heads { qo: group, kv: 1, head_dim: 64 }
}

/// The list of a batch in which every query attends to every key.
fn build(layout: &Layout, group: u32, rule: &PlanRule) -> Result<WorkList, PlanError> {
    WorkList::build_for(&Variant::full(), layout, heads(group), &(*rule).into())
}

/// The list of a batch under a function that classifies tiles.
fn build_visible(
    layout: &Layout,
    group: u32,
    rule: &PlanRule,
    classify: &dyn Fn(Tile) -> TileClass,
) -> Result<WorkList, PlanError> {
    let (full, of_list) = (Variant::full(), (*rule).into());
    let (mut list, mut scratch) = (build(&Layout::default(), group, rule)?, PlanScratch::default());
    list.workers.clear();
    let PlanScratch { units, first_unit_of, tiles, .. } = &mut scratch;
    TileCutter { layout, rule: &of_list, group, units, first_unit_of, tiles }.cut_rows(None)?;
    let mut finder = VisibleBlockFinder::new(layout, &full, heads(group), rule).of_function(classify);
    for tile in tiles {
        tile.visible = finder.find(tile.rows);
    }
    list.split_tiles(&mut scratch, layout, &of_list)?;
    Ok(list)
}

const RULE: PlanRule = PlanRule {
    tile_rows: 16,
    kv_align: 64,
    min_span: 0,
    workers: 1,
    cost: Cost::BLOCKS,
    schedule: Schedule::LongestFirst,
};

fn causal(tile: Tile) -> TileClass {
    if tile.kv_pos_min > tile.qo_pos_max {
        TileClass::Skip
    } else if tile.kv_pos_max <= tile.qo_pos_min {
        TileClass::Full
    } else {
        TileClass::Partial
    }
}

/// (request, first row) -> items in key order.
fn splits_of_tiles(list: &WorkList) -> std::collections::BTreeMap<(i32, i32), Vec<WorkItem>> {
    let mut map = std::collections::BTreeMap::<_, Vec<WorkItem>>::new();
    for item in &list.items {
        map.entry((item.request, item.first_row)).or_default().push(*item);
    }
    map.values_mut().for_each(|items| items.sort_by_key(|item| item.kv_begin));
    map
}

fn requests() -> impl Strategy<Value = (Vec<u32>, Vec<u32>)> {
    proptest::collection::vec((0u32..70, 0u32..700), 0..6).prop_map(|v| v.into_iter().unzip())
}

fn rules() -> impl Strategy<Value = PlanRule> {
    let schedules = prop_oneof![
        Just(Schedule::StreamK),
        Just(Schedule::LongestFirst),
        (1u32..500).prop_map(|keys| Schedule::FixedSplit { keys }),
    ];
    let cost = (0u32..9, 1u32..9, 0u32..3).prop_map(|(item, block, merge)| Cost { item, block, merge });
    (1u32..40, 1u32..100, 0u32..300, 1u32..64, cost, schedules).prop_map(
        |(tile_rows, kv_align, min_span, workers, cost, schedule)| PlanRule {
            tile_rows,
            kv_align,
            min_span,
            workers,
            cost,
            schedule,
        },
    )
}

proptest! {
    /// Rows of a tile share a key list, so they are of one run of queries; a run may end within a tile.
    #[test]
    fn tiles_of_key_lists_have_rows_of_one_run(
        (qo, kv) in requests(), group in 1u32..9, run in 1u64..40, tile_rows in 1u32..80,
    ) {
        let (layout, rule) = (layout(&qo, &kv), ListRule::from(PlanRule { tile_rows, ..RULE }));
        let mut scratch = PlanScratch::default();
        let PlanScratch { units, first_unit_of, tiles, .. } = &mut scratch;
        TileCutter { layout: &layout, rule: &rule, group, units, first_unit_of, tiles }.cut_rows(Some(run))?;
        let mut next = (0, 0);
        for TileRows { request, first_row, rows, .. } in tiles.iter().map(|tile| tile.rows) {
            if request != next.0 {
                next = (request, 0);
            }
            prop_assert_eq!((request, first_row), next);
            prop_assert!((1..=tile_rows).contains(&rows));
            let run_of = |row: u32| u64::from(row / group) / run;
            prop_assert_eq!(run_of(first_row), run_of(first_row + rows - 1));
            next.1 += rows;
        }
        let rows: u32 = tiles.iter().map(|tile| tile.rows.rows).sum();
        prop_assert_eq!(rows, qo.iter().sum::<u32>() * group);
    }
}

proptest! {
    #[test]
    fn every_row_and_key_is_covered_once((qo, kv) in requests(), group in 1u32..9, rule in rules()) {
        let layout = layout(&qo, &kv);
        let list = build(&layout, group, &rule).expect("small");
        prop_assert_eq!(list.check(&layout), Ok(()));
        let map = splits_of_tiles(&list);
        let blocks = |items: &Vec<WorkItem>| u64::from((items[items.len() - 1].kv_end as u32).div_ceil(rule.kv_align));
        let most = rule.max_work(map.len() as u64, map.values().map(blocks).sum());
        prop_assert!(list.items.len() as u64 <= most.items);
        prop_assert!(list.parts[0].workers() as u64 <= most.workers);
        prop_assert!(list.merges.len() as u64 <= most.merges);
        prop_assert!( u64::from(list.partial_rows) <= most.states * u64::from(rule.tile_rows));
        for request in 0..layout.batch() {
            let tiles = (layout.qo_len(request) as u32 * group).div_ceil(rule.tile_rows);
            prop_assert_eq!(map.range((request as i32, 0)..(request as i32 + 1, 0)).count() as u32, tiles);
        }
        for ((request, first_row), items) in &map {
            let left = layout.qo_len(*request as usize) as u32 * group - *first_row as u32;
            prop_assert!((*first_row as u32).is_multiple_of(rule.tile_rows));
            prop_assert!(items[0].rows as u32 == left.min(rule.tile_rows));
            let mut end = 0;
            for (i, item) in items.iter().enumerate() {
                prop_assert_eq!(item.kv_begin, end);
                end = item.kv_end;
                prop_assert!(end > item.kv_begin || items.len() == 1);
                prop_assert_eq!(item.kv_begin as u32 % rule.kv_align, 0);
                let cut = !matches!(rule.schedule, Schedule::FixedSplit { .. });
                let short = cut && ((end - item.kv_begin) as u32) < rule.min_span;
                prop_assert!(!short || i + 1 == items.len(), "{:?} is short", item);
            }
            prop_assert_eq!(end as usize, layout.kv_len(*request as usize));
        }
    }

    #[test]
    fn states_of_a_tile_are_contiguous_and_in_key_order((qo, kv) in requests(), rule in rules()) {
        let layout = layout(&qo, &kv);
        let list = build(&layout, 4, &rule).expect("small");
        let map = splits_of_tiles(&list);
        let tile_rows = rule.tile_rows as i32;
        let mut used = vec![false; list.partial_rows as usize];
        for merge in &list.merges {
            let items = &map[&(merge.request, merge.first_row)];
            prop_assert_eq!(items.len() as i32, merge.count);
            for (i, item) in items.iter().enumerate() {
                prop_assert_eq!(item.partial, merge.first + i as i32 * tile_rows);
                prop_assert_eq!(list.merges[item.merge as usize], *merge);
                for row in item.partial..item.partial + tile_rows {
                    prop_assert!(!std::mem::replace(&mut used[row as usize], true));
                }
            }
        }
        prop_assert!(used.iter().all(|&used| used));
        prop_assert_eq!(map.values().filter(|items| items.len() > 1).count(), list.merges.len());
        prop_assert!(map.values().all(|items| items.len() > 1 || items[0].partial == -1));
    }

    #[test]
    fn longest_first_has_at_most_as_many_items_as_workers((qo, kv) in requests(), rule in rules()) {
        let layout = layout(&qo, &kv);
        let rule = PlanRule { schedule: Schedule::LongestFirst, ..rule };
        let whole = build(&layout, 1, &PlanRule { workers: 1, ..rule }).expect("small");
        let split = build(&layout, 1, &rule).expect("small");
        prop_assert_eq!(whole.partial_rows, 0);
        prop_assert!(split.items.len() <= whole.items.len().max(rule.workers as usize));
        prop_assert_eq!(&split, &build(&layout, 1, &rule).expect("small"));
        prop_assert!(split.items.is_sorted_by_key(|item| item.kv_begin - item.kv_end));
        prop_assert_eq!((split.workers.len(), split.parts[0].workers()), (0, split.items.len()));
    }

    #[test]
    fn fixed_splits_are_at_every_multiple_and_nowhere_else((qo, kv) in requests(), rule in rules(), keys in 1u32..500) {
        let layout = layout(&qo, &kv);
        let rule = PlanRule { schedule: Schedule::FixedSplit { keys }, ..rule };
        let list = build(&layout, 1, &rule).expect("small");
        let step = keys.next_multiple_of(rule.kv_align) as i32;
        for item in &list.items {
            prop_assert_eq!((item.kv_begin % step, item.kv_end), (0, (item.kv_begin + step).min(item.kv_len)));
        }
        // workers run contiguous items of about equal cost
        let cost = |items: &[WorkItem]| -> u64 {
            let blocks = |item: &WorkItem| u64::from(((item.kv_end - item.kv_begin) as u32).div_ceil(rule.kv_align));
            items.iter().map(|item| u64::from(rule.cost.item) + blocks(item) * u64::from(rule.cost.block)).sum()
        };
        let workers = list.workers.len() as u64 - 1;
        prop_assert!(workers <= rule.workers.into());
        let longest = list.items.iter().map(|item| cost(&[*item])).max().unwrap_or(0);
        for ends in list.workers.windows(2) {
            let share = &list.items[ends[0] as usize..ends[1] as usize];
            prop_assert!(cost(share) <= cost(&list.items).div_ceil(workers) + longest);
        }
    }

    /// Cuts depend on the request's keys alone: not on the block at which a tile's first query sees a key, so that a
    /// query has the same cuts in any tile.
    #[test]
    fn fixed_splits_are_at_multiples_of_the_keys_of_a_request_under_any_mask(
        (qo, kv) in requests(), group in 1u32..5, rule in rules(), keys in 1u32..300,
        (window, front) in (0i32..400, prop_oneof![Just(0), 0i32..200]),
    ) {
        let layout = layout(&qo, &kv);
        let rule = PlanRule { schedule: Schedule::FixedSplit { keys }, ..rule };
        // a window, or no key before `front`
        let classify = |tile: Tile| {
            let gone = tile.qo_pos_min - tile.kv_pos_max > window || tile.kv_pos_max < front;
            causal(tile).and(if gone { TileClass::Skip } else { TileClass::Partial })
        };
        let list = build_visible(&layout, group, &rule, &classify).expect("small");
        prop_assert!(list.check(&layout).is_ok());
        let step = keys.next_multiple_of(rule.kv_align) as i32;
        for items in splits_of_tiles(&list).values() {
            let (first, last) = (items[0].kv_begin, items[items.len() - 1].kv_end);
            if first == last {
                prop_assert_eq!(items.len(), 1, "a tile without keys has one item");
                continue;
            }
            let cuts: Vec<_> = items.windows(2).map(|pair| (pair[0].kv_end, pair[1].kv_begin)).collect();
            let multiples = (1..).map(|n| n * step).skip_while(|cut| *cut <= first).take_while(|cut| *cut < last);
            prop_assert_eq!(cuts, multiples.map(|cut| (cut, cut)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_visible_key_is_covered_once(
        (qo, kv) in requests(), group in 1u32..5, rule in rules(), window in 0i32..300,
    ) {
        let layout = layout(&qo, &kv);
        let classify = |tile: Tile| {
            let gone = tile.qo_pos_min - tile.kv_pos_max > window;
            causal(tile).and(if gone { TileClass::Skip } else { TileClass::Partial })
        };
        let list = build_visible(&layout, group, &rule, &classify).expect("small");
        prop_assert!(list.check(&layout).is_ok());
        for ((request, first_row), items) in splits_of_tiles(&list) {
            let (qo_len, kv_len) = (layout.qo_len(request as usize) as i32, layout.kv_len(request as usize) as i32);
            for row in first_row..first_row + items[0].rows {
                let pos = row / group as i32 + kv_len - qo_len;
                for key in (pos - window).max(0)..(pos + 1).min(kv_len) {
                    let times = items.iter().filter(|item| (item.kv_begin..item.kv_end).contains(&key)).count();
                    prop_assert_eq!(times, 1, "row {} key {}", row, key);
                }
            }
        }
    }
}

#[test]
fn one_long_decode_is_split_equally() {
    let layout = layout(&[1], &[1000]);
    let list = build(&layout, 8, &PlanRule { workers: 4, ..RULE }).expect("small");
    let splits_of_tiles: Vec<_> = list.items.iter().map(|item| (item.kv_begin, item.kv_end, item.partial)).collect();
    assert_eq!(splits_of_tiles, [(0, 256, 0), (256, 512, 16), (512, 768, 32), (768, 1000, 48)]);
    assert_eq!(
        list.merges,
        [MergeItem { request: 0, first_row: 0, rows: 8, first: 0, count: 4, qo_token: 0, qo_len: 1, kv_len: 1000 }]
    );
    assert_eq!(
        PartialBytes::of(list.partial_rows as usize, 2, 128).expect("small"),
        PartialBytes { o: 4 * 2 * 16 * 128 * 4, md: 4 * 2 * 16 * 8 }
    );
}

#[test]
fn causal_and_window_shorten_the_kv_range() {
    let layout = layout(&[1024], &[1024]);
    let list = build_visible(&layout, 1, &PlanRule { tile_rows: 64, ..RULE }, &causal).expect("small");
    assert!(list.items.iter().all(|item| item.kv_begin == 0 && item.kv_end == item.first_row + 64));
    let window = |tile: Tile| if tile.qo_pos_min - tile.kv_pos_max >= 64 { TileClass::Skip } else { causal(tile) };
    let list = build_visible(&layout, 1, &PlanRule { tile_rows: 64, ..RULE }, &window).expect("small");
    assert!(list.items.iter().all(|item| item.kv_begin == (item.first_row - 64).max(0)));
}

/// A window of 700 keys, splits of 128 and blocks of 64, for queries at 1000 to 1199 in chunks of 1 to 200.
#[test]
fn under_a_window_a_query_has_the_same_cuts_in_any_chunk() {
    let window = |tile: Tile| if tile.qo_pos_min - tile.kv_pos_max >= 700 { TileClass::Skip } else { causal(tile) };
    let mut begins = std::collections::BTreeSet::new();
    for chunk in [1, 3, 64, 100, 200] {
        for first in (1000..1200).step_by(chunk) {
            let queries = (chunk as u32).min(1200 - first);
            let layout = layout(&[queries], &[first + queries]);
            let rule = PlanRule { schedule: Schedule::FixedSplit { keys: 128 }, ..RULE };
            let list = build_visible(&layout, 1, &rule, &window).expect("small");
            for items in splits_of_tiles(&list).values() {
                begins.insert(items[0].kv_begin);
                assert!(items.len() > 5 && items.is_sorted_by_key(|item| item.kv_begin));
                assert!(items[1..].iter().all(|item| item.kv_begin % 128 == 0), "{chunk} from {first}: {items:?}");
            }
        }
    }
    assert!(begins.iter().any(|begin| begin % 128 != 0), "no tile begins between two cuts: {begins:?}");
}

#[test]
fn requests_without_keys_have_an_item_and_requests_without_queries_have_none() {
    let layout = layout(&[3, 0, 2], &[0, 10, 10]);
    let list = build_visible(&layout, 1, &RULE, &|_| TileClass::Skip).expect("small");
    let items: Vec<_> =
        list.items.iter().map(|item| (item.request, item.kv_begin, item.kv_end, item.partial)).collect();
    assert_eq!(items, [(0, 0, 0, -1), (2, 0, 0, -1)]);
    assert_eq!(build(&self::layout(&[], &[]), 1, &RULE).expect("empty").items, []);
}

#[test]
fn zeros_and_overflows_are_refused() {
    let layout = layout(&[1 << 29], &[1]);
    let zero = |what| Err(PlanError::Zero { what });
    assert_eq!(build(&layout, 1, &PlanRule { tile_rows: 0, ..RULE }), zero("tile_rows"));
    assert_eq!(build(&layout, 1, &PlanRule { kv_align: 0, ..RULE }), zero("kv_align"));
    assert_eq!(build(&layout, 0, &RULE), zero("group"));
    let many = build(&layout, 8, &RULE).expect_err("too many");
    assert_eq!(many, PlanError::TooMany { what: "PackGQA rows of one request", value: 1 << 32 });
}

#[test]
fn a_list_of_another_batch_is_refused() {
    let (small, large) = (layout(&[20], &[100]), layout(&[20, 70], &[300, 1]));
    let rule = PlanRule { workers: 16, schedule: Schedule::StreamK, ..RULE };
    let list = build(&large, 2, &rule).expect("small");
    assert!(list.check(&large).is_ok());
    assert!(matches!(list.check(&small), Err(PlanError::Foreign { what: "item", .. })));
    let fewer = WorkList { partial_rows: list.partial_rows - 16, ..list.clone() };
    assert!(matches!(fewer.check(&large), Err(PlanError::Foreign { field: "partial", .. })));
    let foreign = |list: WorkList| list.check(&large).expect_err("foreign");
    let entry = |i: usize, value: i32| {
        let mut workers = list.workers.clone();
        workers[i] = value;
        foreign(WorkList { workers, ..list.clone() })
    };
    let last = list.workers.len() - 1;
    assert!(matches!(entry(0, 1), PlanError::Workers { entry: 0, value: 1, least: 0, most: 0 }));
    assert!(matches!(entry(1, 100), PlanError::Workers { entry: 1, value: 100, .. }));
    assert!(matches!(entry(2, 0), PlanError::Workers { entry: 2, value: 0, least: 1, .. }));
    assert!(matches!(entry(last, -1), PlanError::Workers { value: -1, .. }));
    let parts = |workers: Range<usize>| vec![WorkPart { workers, ..list.parts[0].clone() }];
    let none = WorkList { workers: vec![0], parts: parts(0..1), ..list.clone() };
    assert!(matches!(foreign(none), PlanError::Workers { value: 0, .. }));
    let some = WorkList { parts: parts(0..2), ..list.clone() };
    assert!(matches!(foreign(some), PlanError::Foreign { what: "part", field: "workers", .. }));
    let mut items = list.items.clone();
    items[0].merge = list.merges.len() as i32;
    assert!(matches!(foreign(WorkList { items, ..list.clone() }), PlanError::Foreign { field: "merge", .. }));
    let mut merges = list.merges.clone();
    merges[0].count = 0;
    assert!(matches!(WorkList { merges, ..list }.check(&large), Err(PlanError::Foreign { field: "count", .. })));
}

fn read<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

#[test]
fn a_blob_holds_every_section() {
    let buf = PageTableBuf::from_lens(&[5, 9], 4, 99, {
        let mut page = 7;
        move || {
            page += 1;
            page
        }
    });
    let layout = Batch::paged(&[0, 1, 2], &buf.table()).validate().expect("sound");
    let rule = PlanRule { kv_align: 4, workers: 8, schedule: Schedule::StreamK, ..RULE };
    let list = build(&layout, 1, &rule).expect("small");
    let blob = PlanBlob::pack(&layout, &list);
    let at = &blob.offsets;
    let ints = |r: &Range<usize>| read::<i32>(&blob.bytes[r.clone()]);
    assert_eq!(ints(&at.qo_indptr), layout.qo_indptr());
    assert_eq!(ints(&at.kv_indptr), layout.kv_indptr());
    assert_eq!(ints(&at.page_indptr), [0, 2, 5]);
    assert_eq!(ints(&at.page_indices), [8, 9, 10, 11, 12]);
    assert_eq!(read::<WorkItem>(&blob.bytes[at.items.clone()]), list.items);
    assert_eq!(read::<MergeItem>(&blob.bytes[at.merges.clone()]), list.merges);
    let starts = read::<WorkerStart>(&blob.bytes[at.workers.clone()]);
    let ends: Vec<_> = starts.iter().map(|start| [start.first, start.end]).collect();
    assert_eq!(ends, list.workers.windows(2).map(|ends| [ends[0], ends[1]]).collect::<Vec<_>>());
    for start in &starts {
        let items = &list.items[start.first as usize..start.end as usize];
        assert_eq!(items.first().copied().unwrap_or_default(), start.item);
    }
    assert_eq!(starts.iter().map(|start| (start.end - start.first) as usize).sum::<usize>(), list.items.len());
    let sections =
        [&at.qo_indptr, &at.kv_indptr, &at.page_indptr, &at.workers, &at.items, &at.merges, &at.page_indices];
    assert!(sections.iter().all(|section| section.start % 16 == 0));
    assert!(sections.windows(2).all(|pair| pair[0].end <= pair[1].start));
    assert_eq!((blob.bytes.len(), blob.bytes.len() % 16), (at.total, 0));
}
