//! Lists of an H200: what they share, how they divide the device, and what is refused.

use attn_core::Variant;
use attn_core::batch::{BatchCapacity, Layout};
use attn_core::plan::{
    CascadeCosts, CascadePolicy, Cost, MixedRule, PlanCapacity, PlanError, PlanRule, Schedule, WorkItem, WorkList,
};
use attn_core::spec::Heads;

use super::super::{
    cascade::{Cascade, LevelGroups, Memory},
    variants,
};
use super::Parts as _;

/// The rule of an H200 for 8 KV heads of 4 query heads; costs in nanoseconds.
const H200: MixedRule = MixedRule {
    decode: PlanRule {
        tile_rows: 16,
        kv_align: 64,
        min_span: 128,
        workers: 33,
        cost: Cost { item: 1500, block: 1400, merge: 400 },
        schedule: Schedule::StreamK,
    },
    prefill: PlanRule {
        tile_rows: 128,
        kv_align: 64,
        min_span: 512,
        workers: 33,
        cost: Cost { item: 3000, block: 1600, merge: 800 },
        schedule: Schedule::LongestFirst,
    },
    co_run_workers: 16,
    own_sms: false,
    cascade: CascadeCosts {
        policy: CascadePolicy::Auto,
        state: 300,
        cached_block: 1000,
        merge_launch: 3000,
        decode_penalty: 72,
    },
};

const HEADS: Heads = Heads { qo: 32, kv: 8, head_dim: 16 };

/// Requests of one query. All share a prefix in full pages; each has further keys of its own.
fn prefix(requests: usize, shared: u32, own: u32) -> Layout {
    let cascade = Cascade {
        qo_lens: vec![1; requests],
        levels: vec![
            LevelGroups { qo_indptr: vec![0, requests as i32], kv_lens: vec![shared] },
            LevelGroups { qo_indptr: (0..=requests as i32).collect(), kv_lens: vec![own; requests] },
        ],
        memory: Memory::Paged { sizes: vec![8; 2], full: true },
        seed: 0,
    };
    cascade.keys(Heads { qo: 1, kv: 1, head_dim: 1 }).layout
}

#[test]
fn shared_keys_are_read_once_where_it_pays() {
    let build = |layout: &Layout, rule: &MixedRule| {
        WorkList::build_for(&Variant::full(), layout, HEADS, &(*rule).into()).expect("small")
    };
    let flat = |layout: &Layout, rule: &MixedRule| {
        WorkList::flattened_if_cheaper(&Variant::full(), layout, HEADS, rule).expect("small").is_some()
    };
    let long = prefix(64, 2048, 128);
    let list = build(&long, &H200);
    assert!(list.shares() && !flat(&long, &H200));
    // the prefix is two tiles of 128 rows, each split; every item is full
    assert!(
        list.prefill().len() > 2
            && list.prefill().iter().all(|item| (item.requests, item.rows, item.full) == (32, 128, 1))
    );
    assert!(list.decode().len() >= 64 && list.decode().iter().all(|item| item.requests == 1 && item.kv_first == 2048));
    assert_eq!(list.merges.len(), 64);
    // a prefix of one page, or only two requests: the partial states cost more than sharing saves
    for layout in [prefix(64, 8, 2048), prefix(2, 64, 2048)] {
        assert!(!build(&layout, &H200).shares() && flat(&layout, &H200));
    }
    // the gain of a short prefix is below the slowdown of the long suffixes in a mixed launch, but not without that
    // slowdown
    let as_fast = MixedRule { cascade: CascadeCosts { decode_penalty: 0, ..H200.cascade }, ..H200 };
    let short = prefix(64, 256, 2048);
    assert!(flat(&short, &H200) && !flat(&short, &as_fast));
    let never = MixedRule { cascade: CascadeCosts { policy: CascadePolicy::Never, ..H200.cascade }, ..H200 };
    assert!(!build(&long, &never).shares() && flat(&long, &never));
    let always = MixedRule { cascade: CascadeCosts { policy: CascadePolicy::Always, ..H200.cascade }, ..H200 };
    assert!(build(&prefix(2, 64, 2048), &always).shares());
}

#[test]
fn parts_share_the_workers_by_cost() {
    let lens = [vec![2048], vec![1; 32]].concat();
    let kv = [vec![8192u32], vec![4096; 32]].concat();
    let ends = [lens, kv].map(|lens| attn_core::batch::indptr(&lens).expect("short"));
    let layout = attn_core::batch::Batch::ragged(&ends[0], &ends[1]).validate().expect("sound");
    let list = WorkList::build_for(&Variant::full(), &layout, HEADS, &H200.into()).expect("small");
    let items = |request: i32| list.items.iter().filter(move |item| item.request == request).count();
    assert_eq!((items(0), list.prefill().len(), list.decode().len() >= 32), (64, 64, true));
    let few = list.workers.len() - 1;
    // decode costs 32 * 64 blocks of 1400, prefill 64 tiles of 128 blocks of 1600: a share of 18 % of 33 workers. The
    // prefill items fill the device, so the part gets `co_run_workers`
    assert_eq!(few, 16);
    assert!(list.prefill().is_sorted_by_key(|item| item.kv_begin - item.kv_end));
}

#[test]
fn a_list_of_another_batch_is_refused() {
    let (one, two) = (prefix(6, 64, 16), prefix(5, 64, 8));
    let always = MixedRule { cascade: CascadeCosts { policy: CascadePolicy::Always, ..H200.cascade }, ..H200 };
    let list = WorkList::build_for(&Variant::full(), &one, HEADS, &always.into()).expect("small");
    assert_eq!(list.check(&one), Ok(()));
    assert!(matches!(list.check(&two), Err(PlanError::Foreign { .. })));
    let wrong = |change: &dyn Fn(&mut WorkList)| {
        let mut list = list.clone();
        change(&mut list);
        list.check(&one).expect_err("foreign")
    };
    type Change = (&'static str, fn(&mut WorkList));
    // the last item belongs to the prefill part
    fn last(list: &mut WorkList) -> &mut WorkItem {
        list.items.last_mut().expect("one")
    }
    let changes: [Change; 10] = [
        ("request", |list| list.items[0].request = 6),
        ("requests", |list| last(list).requests = 7),
        ("rows", |list| last(list).rows = 1000),
        ("first_row", |list| list.items[0].first_row = 4),
        ("memory", |list| list.items[0].memory += 1),
        ("kv_begin", |list| list.items[0].kv_begin = 0),
        ("kv_end", |list| list.items[0].kv_end += 1),
        ("partial", |list| list.items[0].partial = list.partial_rows as i32),
        ("state", |list| list.merge_parts[0] += 1),
        ("count", |list| list.merges[0].count = 100),
    ];
    for (field, change) in changes {
        let error = wrong(&change);
        assert!(matches!(error, PlanError::Foreign { field: named, .. } if named == field), "{field}: {error}");
    }
    assert!(matches!(wrong(&|list| list.workers[1] = 100), PlanError::Workers { .. }));
    assert!(matches!(
        wrong(&|list| {
            list.merges.pop();
        }),
        PlanError::Foreign { .. }
    ));
    assert_eq!(
        WorkList::build_for(&Variant::full(), &one, HEADS, &H200.decode.into()),
        Err(PlanError::Levels { what: "a list of flat work" })
    );
}

#[test]
fn capacity_for_levels_covers_the_largest_cascade() {
    // 64 requests of one query over a prefix; the list fills the capacity except for splits
    let layout = prefix(64, 4096, 512);
    let capacity = BatchCapacity::of(&layout);
    let plan_capacity = PlanCapacity::of(&capacity, &Variant::full(), HEADS, &H200.into()).expect("small");
    let list = WorkList::build_for(&Variant::full(), &layout, HEADS, &H200.into()).expect("small");
    assert_eq!(plan_capacity.check(&layout, &list), Ok(()));
    let rows = 64 * HEADS.group() as usize;
    assert_eq!((plan_capacity.segments, layout.segments().len(), plan_capacity.queries), (2 * 64, 65, 64));
    assert_eq!((plan_capacity.merges, list.merges.len()), (64, 64));
    let cuts = [H200.decode, H200.prefill].map(|rule| (rule.workers as usize - 1) * rows.min(rule.tile_rows as usize));
    assert_eq!(plan_capacity.partial_rows, 2 * rows + cuts[0] + cuts[1]);
    assert!(list.partial_rows as usize >= 2 * rows, "{}", list.partial_rows);

    let past = |plan_capacity: PlanCapacity, what| match plan_capacity.check(&layout, &list) {
        Err(PlanError::Capacity { what: named, .. }) => assert_eq!(named, what),
        other => panic!("{what}: {other:?}"),
    };
    past(PlanCapacity { segments: 64, ..plan_capacity.clone() }, "segments of keys");
    past(PlanCapacity { queries: 63, ..plan_capacity.clone() }, "queries");
    past(PlanCapacity { merges: 63, ..plan_capacity }, "merges");
    let one = PlanCapacity::of(&capacity.in_levels(1), &Variant::full(), HEADS, &H200.into()).expect("small");
    assert!(matches!(one.check(&layout, &list), Err(PlanError::Levels { .. })));
    assert_eq!((one.segments, one.queries), (64, 0));
}

#[test]
fn variants_without_mixed_lists_are_refused() {
    let layout = prefix(3, 16, 8);
    let refused = |variant: &Variant, layout: &Layout| {
        WorkList::build_for(variant, layout, HEADS, &H200.into()).expect_err("refused")
    };
    let (lists, unions, shifted) = (variants::get(18).0, variants::get(21).0, variants::get(13).0);
    assert_eq!(refused(&lists, &layout), PlanError::NotMixed { what: "a list of keys" });
    assert_eq!(refused(&unions, &layout), PlanError::NotMixed { what: "a union" });
    assert_eq!(refused(&shifted, &layout), PlanError::PerRequestKvTransform { part: "shifted", word: "batch" });
    // each runs without levels
    for variant in [&lists, &unions, &shifted] {
        let flat = WorkList::flattened_if_cheaper(variant, &layout, HEADS, &H200).expect("small").expect("full pages");
        assert!(!flat.has_levels());
    }
    assert!(WorkList::build_for(&shifted, &layout.flattened().expect("full pages"), HEADS, &H200.into()).is_ok());
    let fixed = PlanRule { schedule: Schedule::FixedSplit { keys: 64 }, ..H200.decode };
    let error = WorkList::build_for(&Variant::full(), &layout, HEADS, &MixedRule { decode: fixed, ..H200 }.into());
    assert_eq!(error, Err(PlanError::NotMixed { what: "a batch-invariant plan" }));
    let zero = MixedRule { prefill: PlanRule { tile_rows: 0, ..H200.prefill }, ..H200 };
    assert_eq!(
        WorkList::build_for(&Variant::full(), &layout, HEADS, &zero.into()),
        Err(PlanError::Zero { what: "tile_rows" })
    );
}
