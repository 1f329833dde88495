//! The output of the planning kernel equals the plan that the host packs, bit for bit, over random batches.
//!
//! The kernel is compiled for the host. Between two barriers its threads run one after the other in random order.

use attn_core::Variant;
use attn_core::batch::{Batch, BatchCapacity, BatchError, Layout, PageTableBuf, indptr};
use attn_core::lang::{Hook, QueryTile, Tile, TileClass};
use attn_core::plan::{CascadeCosts, CascadePolicy, Cost, ListRule, PlanBlob, PlanRule, Schedule, WorkList};
use attn_core::spec::Heads;
use attn_tests::catalogue::{self, mask_file};
use attn_tests::device_plan::{Arrays, HostPlan, HostPlanner};
use attn_variants::{CustomMask, RequestMask};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::rules::{self, DECODE, PREFILL};

fn random_rule(rng: &mut SmallRng) -> PlanRule {
    if rng.random() {
        return PlanRule { tile_rows: [8, 16][rng.random_range(0..2)], workers: rng.random_range(1..280), ..DECODE };
    }
    // costs of a user may be a tenth of a second
    let unit = [1, 1, 50_000][rng.random_range(0..3)];
    let cost = Cost {
        item: rng.random_range(0..9) * rng.random_range(0..900) * unit,
        block: rng.random_range(1..2000) * unit,
        merge: rng.random_range(0..200) * unit,
    };
    PlanRule {
        tile_rows: rng.random_range(1..20),
        kv_align: rng.random_range(1..100),
        min_span: rng.random_range(0..300),
        workers: [rng.random_range(1..20), rng.random_range(1..700)][rng.random_range(0..2)],
        cost,
        schedule: Schedule::StreamK,
    }
}

/// A mixed rule of batches without levels.
fn mixed(decode: PlanRule, prefill: PlanRule, own_sms: bool) -> ListRule {
    let policy = CascadePolicy::Never;
    let cascade = CascadeCosts { policy, state: 0, cached_block: 1, merge_launch: 0, decode_penalty: 0 };
    rules::mixed(decode, prefill, own_sms, cascade)
}

/// A rule of each schedule, and of mixed lists.
fn random_rules(rng: &mut SmallRng) -> [ListRule; 4] {
    let fixed = Schedule::FixedSplit { keys: [1, 64, 500, 1 << 29][rng.random_range(0..4)] };
    let [streamed, longest_first, fixed] = [Schedule::StreamK, Schedule::LongestFirst, fixed]
        .map(|schedule| ListRule::Flat(PlanRule { schedule, ..random_rule(rng) }));
    [streamed, longest_first, fixed, mixed(random_rule(rng), random_rule(rng), rng.random())]
}

/// Queries and keys of each request.
fn random_lens(rng: &mut SmallRng) -> (Vec<u32>, Vec<u32>) {
    let requests = [rng.random_range(0..5), rng.random_range(1..70), rng.random_range(1..500)][rng.random_range(0..3)];
    let (queries, keys) = ([1, 1, 4, 40][rng.random_range(0..4)], [1, 60, 900, 9000][rng.random_range(0..4)]);
    let equal = rng.random_range(0..4) == 0;
    let length = |rng: &mut SmallRng| {
        let of_request = match rng.random_range(0..9) {
            0 => 0,
            1 => rng.random_range(0..=3 * keys),
            _ => rng.random_range(0..=keys),
        };
        if equal { keys } else { of_request }
    };
    let qo = (0..requests).map(|_| if rng.random_range(0..9) == 0 { 0 } else { rng.random_range(1..=queries) });
    let qo = qo.collect::<Vec<u32>>();
    (qo, (0..requests).map(|_| length(rng)).collect())
}

fn layout((qo, kv): &(Vec<u32>, Vec<u32>), page_size: Option<u32>, rng: &mut SmallRng) -> Layout {
    let (qo, ends) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
    let Some(page_size) = page_size else { return Batch::ragged(&qo, &ends).validate().expect("sound") };
    let table = PageTableBuf::from_lens(kv, page_size, 1000, || rng.random_range(0..1000));
    Batch::paged(&qo, &table.table()).validate().expect("sound")
}

/// The capacity for several batches.
fn capacity(layouts: &[Layout], page_size: Option<u32>) -> BatchCapacity {
    let most = |of: fn(&BatchCapacity) -> u32| layouts.iter().map(|l| of(&BatchCapacity::of(l))).max().unwrap_or(0);
    let capacity = BatchCapacity::new(most(|c| c.requests), most(|c| c.qo_tokens), most(|c| c.kv_tokens));
    let capacity = BatchCapacity { qo_len: most(|c| c.qo_len), ..capacity };
    page_size.map_or(capacity, |page_size| capacity.in_pages(page_size, 1000))
}

/// Plans batches one after the other into one plan, on the host and with the kernel, and compares the bytes. A mixed
/// plan may have a capacity with levels.
fn compare(planner: &HostPlanner, variant: &Variant, heads: Heads, layouts: &[Layout], rule: &ListRule, title: &str) {
    let all = if matches!(rule, ListRule::Mixed(_)) { 1..=2 } else { 1..=1 };
    all.for_each(|levels| compare_in(levels, planner, variant, heads, layouts, rule, title));
}

fn compare_in(
    levels: u32,
    planner: &HostPlanner,
    variant: &Variant,
    heads: Heads,
    layouts: &[Layout],
    rule: &ListRule,
    title: &str,
) {
    let page_size = layouts[0].pages().map(attn_core::batch::Pages::page_size);
    let capacity = capacity(layouts, page_size).in_levels(levels);
    let mut plan = HostPlan::new(&capacity, variant, heads, rule).expect("small");
    let mut blob = PlanBlob::default();
    for (number, layout) in layouts.iter().enumerate() {
        let work = WorkList::build_for(variant, layout, heads, rule).expect("small");
        blob.repack_within(&plan.capacity, layout, &work).expect("within the capacity");
        let title = format!("{title}, {levels} levels");
        let parts = i32::from(page_size.is_some()) + number as i32;
        let seed = number as u32 + layout.kv_tokens() as u32;
        let arrays = Arrays::of(layout);
        // the padded table first, so that the plan holds other bytes before the compressed one
        let padded = page_size.map(|_| arrays.padded(seed as usize % 3));
        for (how, arrays) in padded.iter().map(|arrays| ("padded", arrays)).chain([("compressed", &arrays)]) {
            planner.plan(&mut plan, arrays, parts, seed);
            plan.check().unwrap_or_else(|error| panic!("{title}, {how}: {error}"));
            assert_eq!((plan.status.copied, plan.status.first_bad_page), (0, 0));
            let differs = blob.bytes.iter().zip(plan.bytes()).position(|(host, device)| host != device);
            assert!(
                differs.is_none(),
                "{title}, {how}: batch {number}, byte {differs:?} of {:?}\n{rule:?}\n{:?}",
                blob.offsets,
                work.workers
            );
            planner.check(&capacity, arrays, seed).unwrap_or_else(|error| panic!("{title}, {how}: {error}"));
        }
    }
}

fn random_batches(expr: &str, heads: Heads, rounds: usize, seed: u64) {
    let variant = Variant::parse(expr).expect(expr);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile(&variant, folder.path());
    let mut rng = SmallRng::seed_from_u64(seed);
    for round in 0..rounds {
        let rules = random_rules(&mut rng);
        let page_size = [None, Some(1), Some(16), Some(100)][rng.random_range(0..4)];
        let layouts: Vec<_> = (0..3).map(|_| layout(&random_lens(&mut rng), page_size, &mut rng)).collect();
        for rule in rules {
            compare(&planner, &variant, heads, &layouts, &rule, &format!("{expr}, round {round}"));
        }
    }
}

#[test]
fn device_plans_of_random_batches_equal_host_plans() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    random_batches("full", Heads { qo: 4, kv: 1, head_dim: 64 }, 24, 1);
}

#[test]
fn device_plans_under_masks_equal_host_plans() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    catalogue::register();
    let heads = Heads { qo: 6, kv: 2, head_dim: 64 };
    for (seed, expr) in (2..).zip([
        "causal + sliding_window(window=300)",
        "or(chunked(chunk=500), streaming(sink=20, window=100)) + causal",
        "dilated_window(window=90, dilation=3)",
    ]) {
        random_batches(expr, heads, 8, seed);
    }
}

#[test]
fn device_plans_of_large_batches_equal_host_plans() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let (variant, heads) = (Variant::full(), Heads { qo: 8, kv: 1, head_dim: 64 });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile(&variant, folder.path());
    let mut rng = SmallRng::seed_from_u64(9);
    let lens = |count: usize, keys: &dyn Fn(usize) -> u32| (vec![1; count], (0..count).map(keys).collect::<Vec<u32>>());
    let batches = [
        lens(2000, &|i| (i as u32 * 7919) % 5000),
        lens(1024, &|_| 4096),
        lens(64, &|i| 512 + i as u32 % 64),
        lens(64, &|i| if i % 16 == 0 { 60_000 } else { 700 }),
        lens(1, &|_| 1 << 20),
        lens(0, &|_| 0),
        lens(33, &|_| 0),
    ];
    let layouts = batches.map(|lens| layout(&lens, Some(16), &mut rng));
    for workers in [1, 32, 33, 66, 132, 600, 5000] {
        for schedule in [Schedule::StreamK, Schedule::LongestFirst, Schedule::FixedSplit { keys: 512 }] {
            let rule = PlanRule { workers, schedule, ..DECODE };
            compare(&planner, &variant, heads, &layouts, &rule.into(), &format!("{workers} workers, {schedule:?}"));
        }
        for own_sms in [false, true] {
            let rule = mixed(PlanRule { workers, ..DECODE }, PlanRule { workers, ..PREFILL }, own_sms);
            compare(&planner, &variant, heads, &layouts, &rule, &format!("{workers} workers, mixed, {own_sms}"));
        }
    }
}

/// Requests of one query beside longer ones: more of them than threads, few that are split, and one alone.
#[test]
fn device_plans_of_large_mixed_batches_equal_host_plans() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let (variant, heads) = (Variant::parse("causal").expect("stock"), Heads { qo: 4, kv: 1, head_dim: 64 });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile(&variant, folder.path());
    let mut rng = SmallRng::seed_from_u64(12);
    let lens = |count: usize, qo: &dyn Fn(u32) -> u32, kv: &dyn Fn(u32) -> u32| {
        let numbers = || 0..count as u32;
        (numbers().map(qo).collect::<Vec<u32>>(), numbers().map(kv).collect::<Vec<u32>>())
    };
    let batches = [
        lens(1300, &|i| if i % 3 == 0 { 15 + i % 40 } else { i % 4 }, &|i| 40 + i * 7919 % 900),
        lens(1300, &|i| u32::from(i % 300 != 7) + i % 2, &|i| i * 31 % 500),
        lens(70, &|i| if i % 20 == 3 { 33 } else { 1 }, &|i| if i % 9 == 3 { 60_000 } else { 700 }),
        lens(70, &|i| if i == 5 { 1700 } else { 1 }, &|i| 1700 + i % 3),
        lens(1, &|_| 900, &|_| 100_000),
        lens(1, &|_| 1, &|_| 1 << 20),
        lens(40, &|_| 30, &|i| 30 + i % 2),
        lens(0, &|_| 0, &|_| 0),
        lens(33, &|i| i % 2 * 20, &|_| 0),
    ];
    let layouts = batches.map(|lens| layout(&lens, Some(16), &mut rng));
    for (workers, own_sms) in [(1, false), (33, true), (132, false), (600, false), (600, true)] {
        let rule = mixed(PlanRule { workers, ..DECODE }, PlanRule { workers, ..PREFILL }, own_sms);
        compare(&planner, &variant, heads, &layouts, &rule, &format!("{workers} workers, {own_sms}"));
    }
}

/// Under these masks the refined class leaves fewer keys than the class.
#[test]
fn device_plans_refine_tile_classes_as_host_plans() {
    catalogue::register();
    let heads = Heads { qo: 1, kv: 1, head_dim: 64 };
    let of = |schedule| PlanRule { tile_rows: 16, kv_align: 16, workers: 1, schedule, ..DECODE };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refined = mask_file::masks().into_iter().filter(|mask| {
        let variant = mask.variant();
        let on_device = !variant.has_union() && !variant.has_kv_list() && !variant.has(Hook::KvRange);
        let layout = layout(&(vec![mask.qo as u32], vec![mask.kv as u32]), None, &mut SmallRng::seed_from_u64(1));
        let keys = |schedule| {
            let work = WorkList::build_for(&variant, &layout, heads, &of(schedule).into()).expect("small");
            work.items.iter().map(|item| item.kv_end - item.kv_begin).sum::<i32>()
        };
        on_device && keys(Schedule::LongestFirst) < keys(Schedule::StreamK)
    });
    let mut count = 0;
    for mask in refined.take(3) {
        let (variant, lens) = (mask.variant(), (vec![mask.qo as u32], vec![mask.kv as u32]));
        let folder = folder.path().join(count.to_string());
        std::fs::create_dir(&folder).expect("a new folder");
        let planner = HostPlanner::compile(&variant, &folder);
        let layouts = [layout(&lens, None, &mut SmallRng::seed_from_u64(1))];
        for workers in [1, 40] {
            let rule = PlanRule { workers, ..of(Schedule::LongestFirst) };
            let decode = PlanRule { tile_rows: 1, ..rule };
            for rule in [rule.into(), mixed(decode, rule, false)] {
                compare(&planner, &variant, heads, &layouts, &rule, &format!("{}, {workers} workers", mask.name));
            }
        }
        count += 1;
    }
    assert_eq!(count, 3, "masks that are refined");
}

/// What a `#[mutable]` tensor holds when a plan is made may have changed when it runs: no plan depends on it.
#[test]
fn device_plans_do_not_depend_on_mutable_tensors() {
    let bits: Vec<bool> = (0..400).map(|bit| bit % 90 == 0).collect();
    let mask = CustomMask::from_bools(&[RequestMask { queries: 4, keys: 100, bools: &bits }]).expect("it fits");
    let heads = Heads { qo: 1, kv: 1, head_dim: 64 };
    let layouts = [layout(&(vec![4], vec![100]), None, &mut SmallRng::seed_from_u64(1))];
    let variant = Variant::from(mask).bind(&layouts[0].dims(heads)).expect("it fits");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile(&variant, folder.path());
    for schedule in [Schedule::StreamK, Schedule::LongestFirst] {
        let rule = PlanRule { tile_rows: 1, kv_align: 1, min_span: 1, schedule, ..DECODE };
        compare(&planner, &variant, heads, &layouts, &rule.into(), &format!("{schedule:?}"));
        let work = WorkList::build_for(&variant, &layouts[0], heads, &rule.into()).expect("small");
        assert_eq!(work.items.iter().map(|item| item.kv_end - item.kv_begin).sum::<i32>(), 400, "every key");
    }
}

/// Each batch has one error. The status names it, and no worker has work.
#[test]
fn invalid_batches_set_the_status_and_an_empty_work_list() {
    for schedule in [Schedule::StreamK, Schedule::LongestFirst, Schedule::FixedSplit { keys: 64 }] {
        invalid_batches(&PlanRule { schedule, ..DECODE }.into());
    }
    invalid_batches(&mixed(PlanRule { tile_rows: 4, ..DECODE }, DECODE, true));
}

fn invalid_batches(rule: &ListRule) {
    let (variant, heads) = (Variant::full(), Heads { qo: 4, kv: 1, head_dim: 64 });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile(&variant, folder.path());
    let mut rng = SmallRng::seed_from_u64(5);
    let (qo, kv): (Vec<u32>, Vec<u32>) = ((0..90).map(|i| i % 3).collect(), (0..90).map(|i| i * 5).collect());
    let batch = layout(&(qo, kv), Some(16), &mut rng);
    let capacity = capacity(std::slice::from_ref(&batch), Some(16));
    let sound = Arrays::of(&batch);
    let mut plan = HostPlan::new(&capacity, &variant, heads, rule).expect("small");
    let before = sound.page_indptr.as_ref().expect("pages")[59];
    let entries = plan.capacity.pages.expect("pages") as u32;
    type Mutation = fn(&mut Arrays);
    let cases: [(Mutation, BatchError); 13] = [
        (|a| a.qo_indptr[0] = 1, BatchError::IndptrStart { array: "qo_indptr", first: 1 }),
        (
            |a| a.qo_indptr[40] = -5,
            BatchError::IndptrNotMonotone { array: "qo_indptr", index: 40, value: -5, before: 39 },
        ),
        (
            |a| a.qo_indptr[40..].iter_mut().for_each(|end| *end += 9),
            BatchError::Capacity { what: "queries in one request", count: 9, capacity: 2 },
        ),
        (
            |a| a.qo_indptr[90] = i32::MAX,
            BatchError::Capacity { what: "queries", count: i32::MAX as usize, capacity: 90 },
        ),
        (|a| a.kv_lens[70] = -1, BatchError::KvLen { request: 70, kv_len: -1 }),
        (
            |a| a.kv_lens[3] = i32::MAX,
            BatchError::Capacity { what: "keys", count: i32::MAX as usize, capacity: 20_025 },
        ),
        (
            // each request fits its pages, but all keys together exceed the capacity
            |a| a.kv_lens.iter_mut().for_each(|len| *len = (*len + 15) / 16 * 16),
            BatchError::Capacity { what: "keys", count: 20_240, capacity: 20_025 },
        ),
        (|a| a.page_indptr.as_mut().expect("pages")[0] = 3, BatchError::IndptrStart { array: "page_indptr", first: 3 }),
        (
            |a| a.page_indptr.as_mut().expect("pages")[60] = 2,
            BatchError::IndptrNotMonotone { array: "page_indptr", index: 60, value: 2, before },
        ),
        (
            |a| a.page_indptr.as_mut().expect("pages")[90] = 1 << 20,
            BatchError::Capacity { what: "entries of its page table", count: 1 << 20, capacity: entries },
        ),
        (|a| a.kv_lens[10] += 16, BatchError::FewPages { request: 10, pages: 4, kv_len: 66, page_size: 16 }),
        (|a| a.page_indices[77] = 1000, BatchError::PageOutOfPool { index: 77, page: 1000, num_pages: 1000 }),
        (
            |a| (a.page_indices[1000], a.page_indices[900]) = (-2, -1),
            BatchError::PageOutOfPool { index: 900, page: -1, num_pages: 1000 },
        ),
    ];
    for (number, (mutate, want)) in cases.into_iter().enumerate() {
        let mut bad = sound.clone();
        mutate(&mut bad);
        planner.plan(&mut plan, &bad, 3, number as u32);
        assert_eq!(plan.check().as_ref(), Err(&want), "case {number}");
        match (planner.check(&capacity, &bad, number as u32), want) {
            // the checking kernel has another capacity for page table entries
            (Err(got), BatchError::Capacity { what, .. }) if what.starts_with("entries") => {
                assert!(matches!(got, BatchError::Capacity { what: w, .. } if w == what), "{got}");
            }
            (got, want) => assert_eq!(got, Err(want), "case {number}"),
        }
        // without workers kernels read items, and merges in any case
        let offsets = plan.offsets.clone();
        for empty in [&offsets.workers, &offsets.items, &offsets.merges, &offsets.segment_ends] {
            assert!(plan.bytes()[empty.clone()].iter().all(|&byte| byte == 0), "case {number}");
        }
        assert_eq!((plan.status.copied, plan.status.first_bad_page), (0, 0));
        planner.plan(&mut plan, &sound, 3, 8);
        plan.check().unwrap_or_else(|error| panic!("case {number}, sound again: {error}"));
        assert!(plan.bytes()[offsets.items].iter().any(|&byte| byte != 0));
    }
}

/// The same for padded page tables.
#[test]
fn invalid_padded_page_tables_set_the_status() {
    let (variant, heads) = (Variant::full(), Heads { qo: 4, kv: 1, head_dim: 64 });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile(&variant, folder.path());
    let mut rng = SmallRng::seed_from_u64(6);
    let lens: Vec<u32> = (0..90).map(|i| i * 5).collect();
    let batch = layout(&(vec![1; 90], lens), Some(16), &mut rng);
    let capacity = capacity(std::slice::from_ref(&batch), Some(16));
    let sound = Arrays::of(&batch).padded(1);
    let stride = sound.page_stride.expect("padded");
    assert_eq!(stride, 29, "28 pages for 445 keys, and one spare entry");
    let mut plan = HostPlan::new(&capacity, &variant, heads, &DECODE.into()).expect("small");
    let at = 40 * stride + 3; // of 200 keys
    let (mut few, mut page, mut long) = (sound.clone(), sound.clone(), sound.clone());
    few.kv_lens[7] = 29 * 16 + 1;
    (page.page_indices[at], page.page_indices[50 * stride]) = (1000, -1);
    long.kv_lens[89] = 29 * 16;
    let cases = [
        (few, BatchError::FewPages { request: 7, pages: 29, kv_len: 465, page_size: 16 }),
        (page, BatchError::BlockTablePage { request: 40, index: 3, page: 1000, num_pages: 1000 }),
        (long, BatchError::Capacity { what: "keys", count: 20_044, capacity: 20_025 }),
    ];
    for (number, (bad, want)) in cases.into_iter().enumerate() {
        planner.plan(&mut plan, &bad, 3, number as u32);
        assert_eq!(plan.check().as_ref(), Err(&want), "case {number}");
        assert!(plan.bytes()[plan.offsets.workers.clone()].iter().all(|&byte| byte == 0), "case {number}");
        assert_eq!(planner.check(&capacity, &bad, number as u32), Err(want), "case {number}");
        planner.plan(&mut plan, &sound, 3, 8);
        plan.check().unwrap_or_else(|error| panic!("case {number}, sound again: {error}"));
    }
}

/// The longest prefix of at most `most` blocks that is skipped, by bisection.
fn bisected(most: i32, skips: &dyn Fn(i32) -> bool) -> i32 {
    let (mut yes, mut no) = (0, most + 1);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if skips(middle) { yes = middle } else { no = middle }
    }
    yes
}

/// The host searches KV ranges from hints, the kernel by bisection. Both find the same range under every mask.
#[test]
fn kv_ranges_do_not_depend_on_search_hints() {
    catalogue::register();
    let heads = Heads { qo: 1, kv: 1, head_dim: 64 };
    for mask in mask_file::masks() {
        let variant = mask.variant();
        if variant.has_union() || variant.has_kv_list() {
            continue;
        }
        let lens = (vec![mask.qo as u32], vec![mask.kv as u32]);
        let layout = layout(&lens, None, &mut SmallRng::seed_from_u64(1));
        for (tile_rows, kv_align) in [(1, 64), (8, 64), (16, 128), (8, 16), (3, 7)] {
            let rule = PlanRule { tile_rows, kv_align, workers: 1, ..DECODE };
            let work = WorkList::build_for(&variant, &layout, heads, &rule.into()).expect("small");
            for item in &work.items {
                let (first, last) = (item.first_row, item.first_row + item.rows - 1);
                let pos = mask.kv - mask.qo;
                let align = kv_align as i32;
                let skips = |begin: i32, end: i32| {
                    let rows = QueryTile {
                        qo_row_min: first,
                        qo_row_max: last,
                        qo_pos_min: first + pos,
                        qo_pos_max: last + pos,
                        qo_token_min: first,
                        qo_token_max: last,
                        qo_len: mask.qo,
                        kv_len: mask.kv,
                        ..QueryTile::default()
                    };
                    let (first, last) = (begin * align, (end * align).min(mask.kv) - 1);
                    let tile =
                        Tile { rows, kv_pos_min: first, kv_pos_max: last, kv_token_min: first, kv_token_max: last };
                    variant.tile_class(tile) == TileClass::Skip
                };
                let blocks = (mask.kv as u32).div_ceil(kv_align) as i32;
                let begin = bisected(blocks, &|n| n == 0 || skips(0, n));
                let end = blocks - bisected(blocks - begin, &|n| n == 0 || skips(blocks - n, blocks));
                let want = if begin < end { (begin * align, (end * align).min(mask.kv)) } else { (0, 0) };
                assert_eq!((item.kv_begin, item.kv_end), want, "{}, rows {first} of {rule:?}", mask.name);
            }
        }
    }
}
