//! Stream-K: the bounds of every schedule, and the schedules of some batches.

use super::*;
use crate::plan::stream_k::{Cut, StreamK, tile_ends};

/// The rule of decode on an H200 with 8 KV heads; costs in nanoseconds.
const DECODE: PlanRule = PlanRule {
    tile_rows: 4,
    kv_align: 64,
    min_span: 128,
    workers: 33,
    cost: Cost { item: 1000, block: 2000, merge: 100 },
    schedule: Schedule::StreamK,
};

/// Total cost of items.
fn cost(items: &[WorkItem], rule: &PlanRule) -> u64 {
    let blocks = |item: &WorkItem| u64::from(((item.kv_end - item.kv_begin) as u32).div_ceil(rule.kv_align));
    items.iter().map(|item| u64::from(rule.cost.item) + blocks(item) * u64::from(rule.cost.block)).sum()
}

/// The items of each worker.
fn shares(list: &WorkList) -> Vec<&[WorkItem]> {
    list.workers.windows(2).map(|ends| &list.items[ends[0] as usize..ends[1] as usize]).collect()
}

proptest! {
    #[test]
    fn workers_cost_about_the_same_and_have_at_most_two_partial_states((qo, kv) in requests(), rule in rules()) {
        let layout = layout(&qo, &kv);
        let rule = PlanRule { schedule: Schedule::StreamK, ..rule };
        let list = build(&layout, 2, &rule).expect("small");
        let shares = shares(&list);
        prop_assert!(!shares.is_empty() && shares.len() <= rule.workers as usize);
        let whole = build(&layout, 2, &PlanRule { workers: 1, ..rule }).expect("small");
        prop_assert_eq!(whole.partial_rows, 0);
        let each = cost(&whole.items, &rule).div_ceil(shares.len() as u64);
        let shortest = u64::from(rule.min_span.div_ceil(rule.kv_align).max(1));
        let most = each + u64::from(rule.cost.item) + shortest * u64::from(rule.cost.block);
        for share in shares {
            prop_assert!(cost(share, &rule) <= most, "{} > {most}", cost(share, &rule));
            prop_assert!(share.iter().filter(|item| item.partial >= 0).count() <= 2);
        }
        // items are in the order of the batch, and splits in the order of keys
        prop_assert!(list.items.is_sorted_by_key(|item| (item.request, item.first_row, item.kv_begin)));
    }

    /// The planner kernel counts instead of walking over the tiles.
    #[test]
    fn items_slots_and_merges_follow_from_counting((qo, kv) in requests(), rule in rules()) {
        follow_from_counting(&layout(&qo, &kv), rule)?;
    }

    /// There are as many workers as requests: several may fall on the same block of a long request.
    #[test]
    fn so_they_do_for_a_long_request_among_many_short_ones(
        short in proptest::collection::vec(0u32..200, 1..60), long in 500u32..9000, at in 0usize..60, rule in rules(),
    ) {
        let mut kv = short;
        kv.insert(at.min(kv.len()), long);
        let layout = layout(&vec![1; kv.len()], &kv);
        follow_from_counting(&layout, rule)?;
        let list = build(&layout, 2, &PlanRule { schedule: Schedule::StreamK, ..rule }).expect("small");
        prop_assert_eq!(list.check(&layout), Ok(()));
    }
}

/// Asserts that the workers' cuts alone give the items, partial states and merges of a list.
fn follow_from_counting(layout: &Layout, rule: PlanRule) -> Result<(), TestCaseError> {
    let rule = PlanRule { schedule: Schedule::StreamK, ..rule };
    let list = build(layout, 2, &rule).expect("small");
    let tiles = build(layout, 2, &PlanRule { workers: 1, ..rule }).expect("small").items;
    let blocks: Vec<_> = tiles.iter().map(|item| u64::from((item.kv_end as u32).div_ceil(rule.kv_align))).collect();
    let mut ends = Vec::new();
    tile_ends(&mut ends, rule.cost, blocks.iter().map(|&blocks| (1, blocks as u32))).expect("small");
    let stream_k = StreamK::new(&ends, &rule, tiles.len() as u64, blocks.iter().copied().max().unwrap_or(0));
    prop_assert_eq!(list.workers.len() as u64, stream_k.workers() + 1);
    let cuts: Vec<Cut> = (0..=stream_k.workers()).map(|worker| stream_k.cut(worker)).collect();
    let (mut inside, mut cut_tiles) = (0, 0);
    for worker in 0..cuts.len() {
        let cut = cuts[worker];
        let is_new = cut.block > 0 && cut != cuts[worker - 1];
        if is_new {
            inside += 1;
            let before = cuts[worker - 1];
            cut_tiles += usize::from(before.tile != cut.tile || before.block == 0);
        }
        prop_assert_eq!(list.workers[worker] as usize, cut.tile as usize + inside, "worker {}", worker);
        if is_new {
            let item = list.items[list.workers[worker] as usize];
            prop_assert_eq!(item.partial as usize, (inside + cut_tiles - 1) * rule.tile_rows as usize);
            prop_assert_eq!(item.merge as usize, cut_tiles - 1);
            let tile = tiles[cut.tile as usize];
            prop_assert_eq!((item.request, item.first_row), (tile.request, tile.first_row));
            prop_assert_eq!(item.kv_begin as u32, cut.block * rule.kv_align);
        }
    }
    prop_assert_eq!(list.merges.len(), cut_tiles);
    prop_assert_eq!(list.partial_rows, (inside + cut_tiles) as u32 * rule.tile_rows);
    prop_assert_eq!(list.items.len(), tiles.len() + inside);
    Ok(())
}

/// Keys of the items of each worker, for requests of one query.
fn decode(kv: &[u32], rule: &PlanRule) -> Vec<Vec<i32>> {
    let list = build(&layout(&vec![1; kv.len()], kv), 4, rule).expect("small");
    let keys = |share: &&[WorkItem]| share.iter().map(|item| item.kv_end - item.kv_begin).collect();
    shares(&list).iter().map(keys).collect()
}

#[test]
fn a_short_request_has_few_workers_and_a_long_one_all() {
    assert_eq!(decode(&[1024], &DECODE), vec![vec![128]; 8]);
    assert_eq!(decode(&[64], &DECODE), [[64]]);
    let long = decode(&[32 << 10], &DECODE);
    assert_eq!(long.len(), 33);
    assert!(long.iter().all(|keys| keys.len() == 1 && (15 * 64..=16 * 64).contains(&keys[0])), "{long:?}");
    // merging more states would take longer than it saves
    let costly_merge = PlanRule { cost: Cost { merge: 16_000, ..DECODE.cost }, ..DECODE };
    assert_eq!(decode(&[32 << 10], &costly_merge).len(), 8);
}

#[test]
fn a_long_tile_alone_has_more_splits_where_they_merge_in_groups() {
    // costs like those of bf16 at head_dim 128 on an H200, for one KV head
    let rule = PlanRule { workers: 396, cost: Cost { item: 697, block: 3088, merge: 168 }, ..DECODE };
    let workers = |keys: u32| decode(&[keys], &rule).len();
    assert_eq!([1, 8].map(|thousand| workers(thousand << 10)), [8, 64], "128 keys each");
    // sqrt(2 * 512 * 3088 / 168), where 97 would be best if one CTA merged them all
    assert_eq!([32, 128].map(|thousand| workers(thousand << 10)), [137, 274]);
    let costly = PlanRule { cost: Cost { merge: 7_000, ..rule.cost }, ..rule };
    assert_eq!(decode(&[32 << 10], &costly).len(), 15, "16 merge in one step");
}

#[test]
fn short_requests_have_a_worker_each_as_far_as_there_are_workers() {
    assert_eq!(decode(&[64; 8], &DECODE), vec![vec![64]; 8]);
    assert_eq!(decode(&[128; 8], &DECODE), vec![vec![128]; 8]);
    assert_eq!(decode(&[64; 66], &DECODE), vec![vec![64; 2]; 33]);
}

#[test]
fn tiles_of_about_equal_length_are_split_only_where_it_pays() {
    // two windows for each worker, although one worker then has no work
    let windows: Vec<u32> = (0..64).map(|i| 512 + i % 64).collect();
    let shares = decode(&windows, &DECODE);
    assert!(shares.len() == 32 && shares.iter().all(|keys| keys.len() == 2), "{shares:?}");
    // 128 blocks for most workers and one worker without any would take longer
    let shares = decode(&[4096; 64], &DECODE);
    assert!(shares.len() == 33 && shares.iter().all(|keys| keys.iter().sum::<i32>() <= 126 * 64), "{shares:?}");
    let uneven: Vec<u32> = (0..64).map(|i| 64 + i * 16).collect();
    assert_eq!(decode(&uneven, &DECODE).len(), 33);
}

#[test]
fn many_workers_for_few_blocks_and_one_worker() {
    let many = PlanRule { workers: u32::MAX, min_span: 0, cost: Cost { merge: 0, ..DECODE.cost }, ..DECODE };
    let keys: Vec<_> = decode(&[640, 3], &many).concat();
    assert_eq!(keys, [[64; 10].as_slice(), &[3]].concat());
    assert_eq!(decode(&[640, 3], &PlanRule { workers: 1, ..DECODE }), [[640, 3]]);
    assert_eq!(decode(&[], &DECODE), [[0; 0]; 1]);
}

#[test]
fn requests_without_keys_have_an_item() {
    let keys = decode(&[0, 0, 5000, 0], &DECODE);
    assert_eq!(keys.concat().iter().filter(|&&keys| keys == 0).count(), 3);
    assert_eq!(decode(&[0; 4], &PlanRule { cost: Cost::BLOCKS, ..DECODE }).concat(), [0; 4]);
}

#[test]
fn costs_that_overflow_are_refused() {
    let cost = Cost { item: 0, block: u32::MAX, merge: 0 };
    let rule = PlanRule { tile_rows: 1, kv_align: 1, cost, ..DECODE };
    for schedule in [Schedule::StreamK, Schedule::FixedSplit { keys: u32::MAX }] {
        let error = build(&layout(&[8], &[(1 << 30) - 1]), 1, &PlanRule { schedule, ..rule });
        assert_eq!(error, Err(PlanError::TooMany { what: "units of cost", value: u64::MAX }));
    }
}
