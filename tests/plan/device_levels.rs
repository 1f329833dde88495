//! The planning kernel of batches with levels: its output equals the plan that the host packs, bit for bit, over random
//! cascades, and it refuses what the host refuses.
//!
//! The kernel is compiled for the host. Between two barriers its threads run one after the other in random order.

use attn_core::Variant;
use attn_core::batch::{
    Batch, BatchCapacity, BatchError, CascadeLevel, CascadeLevelKv, I32Slice, Layout, PagePool, PageTableBuf, indptr,
};
use attn_core::plan::{CascadeCosts, CascadePolicy, Cost, ListRule, PlanBlob, PlanRule, WorkList};
use attn_core::spec::Heads;
use attn_tests::device_plan::{Arrays, HostPlan, HostPlanner};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::rules::{self, DECODE, mixed};

/// Pages of the pool.
const PAGES: u32 = 1000;

const PREFILL: PlanRule = PlanRule { tile_rows: 64, ..rules::PREFILL };

const CASCADE: CascadeCosts =
    CascadeCosts { policy: CascadePolicy::Auto, state: 200, cached_block: 900, merge_launch: 0, decode_penalty: 0 };

fn random_rule(rng: &mut SmallRng, of: PlanRule) -> PlanRule {
    if rng.random() {
        return PlanRule { workers: rng.random_range(1..280), ..of };
    }
    let cost = Cost {
        item: rng.random_range(0..9) * rng.random_range(0..900),
        block: rng.random_range(1..2000),
        merge: rng.random_range(0..200),
    };
    PlanRule {
        tile_rows: rng.random_range(1..80),
        kv_align: rng.random_range(1..100),
        min_span: rng.random_range(0..300),
        workers: [rng.random_range(1..20), rng.random_range(1..700)][rng.random_range(0..2)],
        cost,
        ..of
    }
}

fn random_mixed(rng: &mut SmallRng) -> ListRule {
    let policy = [CascadePolicy::Auto, CascadePolicy::Auto, CascadePolicy::Always, CascadePolicy::Never];
    let cascade = CascadeCosts {
        policy: policy[rng.random_range(0..4)],
        state: rng.random_range(0..500),
        cached_block: rng.random_range(0..1500),
        ..CASCADE
    };
    mixed(random_rule(rng, DECODE), random_rule(rng, PREFILL), rng.random(), cascade)
}

/// A batch with levels: where groups end, as prefix sums of queries, and their key counts. The last level is that of
/// the requests' own keys.
struct Cascade {
    levels: Vec<(Vec<i32>, Vec<u32>)>,
}

impl Cascade {
    /// Levels whose groups begin at some of the requests where the groups of the next level begin.
    fn random(rng: &mut SmallRng) -> Self {
        let requests = [rng.random_range(0..5), rng.random_range(1..70), rng.random_range(1..200)];
        let requests = requests[rng.random_range(0..3)];
        let (queries, keys) = ([1, 1, 4, 90][rng.random_range(0..4)], [1, 60, 900, 5000][rng.random_range(0..4)]);
        let length = |rng: &mut SmallRng, most: u32| match rng.random_range(0..6) {
            0 => 0,
            1 => most,
            _ => rng.random_range(0..=most),
        };
        let mixes = rng.random_range(0..3) == 0;
        let query = |rng: &mut SmallRng| match rng.random_range(0..9) {
            0 => 0,
            1..5 if mixes => 1,
            _ => rng.random_range(1..=queries),
        };
        let qo: Vec<u32> = (0..requests).map(|_| query(rng)).collect();
        let qo = indptr(&qo).expect("short");
        let mut begins: Vec<usize> = (0..requests).collect();
        let mut levels = vec![(qo.clone(), begins.iter().map(|_| length(rng, keys)).collect::<Vec<_>>())];
        for _ in 0..rng.random_range(1..4) {
            let fewer = [1.0, 0.6, 0.2, 0.03, 0.0][rng.random_range(0..5)];
            begins.retain(|&begin| begin == 0 || rng.random_bool(fewer));
            let spare = if rng.random_range(0..3) == 0 { rng.random_range(0..3) } else { 0 };
            let ends = begins.iter().map(|&begin| qo[begin]).chain(vec![qo[requests]; 1 + spare]);
            let ends: Vec<i32> = if begins.is_empty() { vec![0] } else { ends.collect() };
            let lens = (1..ends.len()).map(|_| length(rng, keys)).collect();
            levels.insert(0, (ends, lens));
        }
        Cascade { levels }
    }

    /// What host and device take. With `spare`, groups have surplus pages in the device's tables.
    fn arrays(&self, page_size: Option<u32>, spare: bool, rng: &mut SmallRng) -> (Result<Layout, BatchError>, Arrays) {
        let mut token = 0;
        let tables: Vec<_> = (self.levels.iter())
            .map(|(_, lens)| match page_size {
                Some(page_size) => {
                    let next = || rng.random_range(0..PAGES as i32);
                    (PageTableBuf::from_lens(lens, page_size, PAGES, next), Vec::new())
                }
                None => {
                    let ends: Vec<i32> = indptr(lens).expect("short").iter().map(|end| end + token).collect();
                    token = ends[lens.len()];
                    (PageTableBuf::default(), ends)
                }
            })
            .collect();
        let levels: Vec<_> = (self.levels.iter().zip(&tables))
            .map(|((qo_indptr, _), (table, ends))| CascadeLevel {
                qo_indptr,
                kv: match page_size {
                    Some(_) => CascadeLevelKv::Paged(table.table()),
                    None => CascadeLevelKv::Ragged(ends),
                },
            })
            .collect();
        let qo_indptr = &self.levels[self.levels.len() - 1].0;
        let layout = Batch::cascade(qo_indptr, &levels).validate();
        let mut of_levels: Vec<_> = (self.levels.iter().zip(&tables))
            .map(|((qo_indptr, lens), (table, _))| {
                let mut arrays = Arrays {
                    qo_indptr: qo_indptr.clone(),
                    kv_lens: lens.iter().map(|&len| len as i32).collect(),
                    ..Arrays::default()
                };
                if page_size.is_some() {
                    (arrays.page_indptr, arrays.page_indices) = (Some(vec![0]), Vec::new());
                    for ends in table.indptr.windows(2) {
                        let spare =
                            vec![-9; if spare && rng.random_range(0..5) == 0 { rng.random_range(1..3) } else { 0 }];
                        let row = &table.indices[ends[0] as usize..ends[1] as usize];
                        arrays.page_indices.extend(row.iter().chain(&spare));
                        let end = arrays.page_indices.len() as i32;
                        arrays.page_indptr.get_or_insert_default().push(end);
                    }
                }
                arrays
            })
            .collect();
        let own = of_levels.pop().expect("a level");
        (layout, Arrays { levels: of_levels, ..own })
    }
}

/// The same with padded page tables.
fn padded(arrays: &Arrays, spare: usize) -> Arrays {
    Arrays { levels: arrays.levels.iter().map(|level| level.padded(spare)).collect(), ..arrays.padded(spare) }
}

/// The capacity for several batches.
fn capacity(batches: &[(Layout, Arrays)], page_size: Option<u32>) -> BatchCapacity {
    let most =
        |of: fn(&BatchCapacity) -> u32| batches.iter().map(|(l, _)| of(&BatchCapacity::of(l))).max().unwrap_or(0);
    let groups = batches.iter().flat_map(|(_, arrays)| &arrays.levels).map(|level| level.kv_lens.len()).max();
    let requests = most(|c| c.requests).max(groups.unwrap_or(0) as u32);
    let capacity = BatchCapacity::new(requests, most(|c| c.qo_tokens), most(|c| c.kv_tokens));
    let capacity = BatchCapacity { qo_len: most(|c| c.qo_len), ..capacity }.in_levels(most(|c| c.levels).max(2));
    match page_size {
        Some(page_size) => capacity.in_pages(page_size, PAGES),
        None => capacity.in_tokens(most(|c| c.kv_memory_tokens.unwrap_or(0))),
    }
}

fn host(array: &[i32]) -> I32Slice<'_> {
    I32Slice::host(array)
}

/// The layout that the CPU makes of the arrays.
fn on_host(arrays: &Arrays, page_size: Option<u32>) -> Result<Layout, BatchError> {
    let levels = arrays.levels(host);
    let pool = page_size.map(|page_size| PagePool { page_size, num_pages: PAGES });
    arrays.batch(host, &levels).layout(pool).map(|layout| layout.expect("on the host"))
}

/// Plans batches one after the other into one plan, on the host and with the kernel, and compares the bytes.
fn compare(
    planner: &HostPlanner,
    variant: &Variant,
    heads: Heads,
    batches: &[(Layout, Arrays)],
    rule: &ListRule,
    rng: &mut SmallRng,
) {
    let page_size = batches[0].0.pages().map(attn_core::batch::Pages::page_size);
    let mut plan = HostPlan::new(&capacity(batches, page_size), variant, heads, rule).expect("small");
    let mut blob = PlanBlob::default();
    for (number, (layout, arrays)) in batches.iter().enumerate() {
        let work = WorkList::build_for(variant, layout, heads, rule).expect("small");
        work.check(layout).expect("a list of the batch");
        blob.repack_within(&plan.capacity, layout, &work).expect("within the capacity");
        let parts = page_size.map_or(0, |_| 1 + number as i32);
        let seed = number as u32 + layout.kv_tokens() as u32;
        let padded = page_size.map(|_| padded(arrays, seed as usize % 3));
        let mut forms: Vec<_> =
            padded.iter().map(|arrays| ("padded", arrays)).chain([("compressed", arrays)]).collect();
        // either may hide what the other leaves
        if rng.random() {
            forms.reverse();
        }
        for (how, arrays) in forms {
            assert_eq!(on_host(arrays, page_size).as_ref(), Ok(layout), "{how}");
            planner.plan(&mut plan, arrays, parts, seed);
            plan.check().unwrap_or_else(|error| panic!("{how}, batch {number}: {error}"));
            assert_eq!((plan.status.copied, plan.status.first_bad_page), (0, 0));
            let differs = blob.bytes.iter().zip(plan.bytes()).position(|(host, device)| host != device);
            assert!(differs.is_none(), "{how}: batch {number}, byte {differs:?} of {:?}\n{rule:?}", blob.offsets);
        }
    }
}

fn random_cascades(expr: &str, heads: Heads, rounds: usize, seed: u64) {
    let variant = Variant::parse(expr).expect(expr);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile(&variant, folder.path());
    let mut rng = SmallRng::seed_from_u64(seed);
    for _ in 0..rounds {
        let page_size = [None, Some(1), Some(16), Some(100)][rng.random_range(0..4)];
        let mut batches = Vec::new();
        while batches.len() < 3 {
            // the levels of a batch may not be nested, where requests without queries are in groups of their own
            let (layout, arrays) = Cascade::random(&mut rng).arrays(page_size, true, &mut rng);
            batches.extend(layout.map(|layout| (layout, arrays)));
        }
        for _ in 0..3 {
            let rule = random_mixed(&mut rng);
            compare(&planner, &variant, heads, &batches, &rule, &mut rng);
        }
    }
}

#[test]
fn device_plans_of_random_cascades_equal_host_plans() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    random_cascades("full", Heads { qo: 4, kv: 1, head_dim: 64 }, 12, 1);
}

#[test]
fn device_plans_under_masks_of_cascades_equal_host_plans() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let heads = Heads { qo: 6, kv: 2, head_dim: 64 };
    random_cascades("causal", heads, 6, 2);
    random_cascades("causal + sliding_window(window=300)", heads, 6, 3);
    random_cascades("or(chunked(chunk=500), streaming(sink=20, window=100)) + causal", heads, 6, 4);
}

/// Requests of one and two queries, groups of 20 and 10 that share a prompt, groups of about 10 that share an example.
fn nested(page_size: Option<u32>) -> (BatchCapacity, Arrays) {
    let qo = indptr(&(0..30).map(|i| 1 + i % 2).collect::<Vec<u32>>()).expect("short");
    let levels = vec![
        (vec![0, qo[20], qo[30]], vec![333, 70]),
        (vec![0, qo[9], qo[20], qo[30]], vec![40, 50, 0]),
        (qo, (0..30).map(|i| i * 5).collect()),
    ];
    let (layout, arrays) = Cascade { levels }.arrays(page_size, false, &mut SmallRng::seed_from_u64(5));
    let batch = [(layout.expect("nested"), arrays)];
    let capacity = capacity(&batch, page_size);
    let [(_, arrays)] = batch;
    (capacity, arrays)
}

/// Each batch has one error. The status names it, and no worker has work.
#[test]
fn invalid_levels_set_the_status_and_an_empty_work_list() {
    let (variant, heads) = (Variant::full(), Heads { qo: 4, kv: 1, head_dim: 64 });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile(&variant, folder.path());
    let rule = mixed(DECODE, PREFILL, false, CASCADE);
    let refused =
        |page_size: Option<u32>, capacity: &BatchCapacity, bad: &Arrays, sound: &Arrays, want: &BatchError| {
            let mut plan = HostPlan::new(capacity, &variant, heads, &rule).expect("small");
            let parts = page_size.map_or(0, |_| 3);
            planner.plan(&mut plan, bad, parts, 3);
            assert_eq!(plan.check().as_ref(), Err(want));
            let offsets = plan.offsets.clone();
            for empty in [&offsets.workers, &offsets.items, &offsets.merges, &offsets.segment_ends] {
                assert!(plan.bytes()[empty.clone()].iter().all(|&byte| byte == 0), "{want}");
            }
            assert_eq!((plan.status.copied, plan.status.first_bad_page), (0, 0));
            planner.plan(&mut plan, sound, parts, 8);
            plan.check().unwrap_or_else(|error| panic!("after {want}, sound again: {error}"));
            assert!(plan.bytes()[offsets.items].iter().any(|&byte| byte != 0));
            // the host knows neither the capacity of a level nor the end of its table
            if !matches!(want, BatchError::CascadeLevel { error, .. } if matches!(**error, BatchError::Capacity { .. }))
            {
                let host = on_host(bad, page_size).and_then(|layout| capacity.check(&layout));
                assert_eq!(host.as_ref(), Err(want));
            }
        };
    let (capacity, sound) = nested(Some(16));
    let (keys, entries) = (capacity.kv_tokens, sound.levels[0].page_indices.len() as u32);
    let past = |what, count: u32, capacity| BatchError::Capacity { what, count: count as usize, capacity };
    let in_level = |level, error| BatchError::CascadeLevel { level, error: Box::new(error) };
    let start = |array, first| BatchError::IndptrStart { array, first };
    let order = |array, index, value, before| BatchError::IndptrNotMonotone { array, index, value, before };
    let page = |index, page| BatchError::PageOutOfPool { index, page, num_pages: PAGES };
    let few = BatchError::FewPages { request: 20, pages: 7, kv_len: 132, page_size: 16 };
    let cuts = BatchError::GroupCutsRequest { index: 2, value: 14, request: 9 };
    type Mutation = fn(&mut Arrays);
    let cases: [(Mutation, BatchError); 17] = [
        (|a| a.qo_indptr[0] = 1, start("qo_indptr", 1)),
        (|a| a.qo_indptr[7] = -1, order("qo_indptr", 7, -1, 9)),
        (|a| a.kv_lens[20] = -4, BatchError::KvLen { request: 20, kv_len: -4 }),
        (|a| a.kv_lens[20] += 32, few),
        (|a| a.kv_lens[29] += 7, past("keys", keys + 7, keys)),
        (|a| a.page_indices[40] = 1000, page(40, 1000)),
        (|a| a.levels[0].qo_indptr[0] = 2, in_level(0, start("qo_indptr", 2))),
        (|a| a.levels[1].qo_indptr[2] = 3, in_level(1, order("qo_indptr", 2, 3, 13))),
        (|a| a.levels[0].qo_indptr[2] = 44, in_level(0, BatchError::LevelEnd { value: 44, want: 45 })),
        (|a| a.levels[1].qo_indptr[2] = 14, in_level(1, cuts)),
        (|a| a.levels[1].qo_indptr[2] = 27, in_level(1, BatchError::NotNested { group: 2, request: 20 })),
        (|a| a.levels[1].kv_lens[2] = -1, in_level(1, BatchError::KvLen { request: 2, kv_len: -1 })),
        (|a| a.levels[0].kv_lens[0] = i32::MAX, in_level(0, past("keys", i32::MAX as u32, keys))),
        (|a| a.levels[1].page_indptr.as_mut().expect("pages")[0] = 1, in_level(1, start("page_indptr", 1))),
        (|a| a.levels[1].page_indptr.as_mut().expect("pages")[1] = -3, in_level(1, order("page_indptr", 1, -3, 0))),
        (
            |a| a.levels[0].page_indptr.as_mut().expect("pages")[2] = 1 << 20,
            in_level(0, past("entries of its page table", 1 << 20, entries)),
        ),
        (|a| a.levels[0].page_indices[7] = -1, in_level(0, page(7, -1))),
    ];
    for (mutate, want) in cases {
        let mut bad = sound.clone();
        mutate(&mut bad);
        refused(Some(16), &capacity, &bad, &sound, &want);
    }
    let sound = padded(&sound, 1);
    let mut bad = sound.clone();
    bad.levels[1].page_indices[5] = 1000;
    let page = BatchError::BlockTablePage { request: 1, index: 0, page: 1000, num_pages: PAGES };
    refused(Some(16), &capacity, &bad, &sound, &in_level(1, page));

    let (capacity, sound) = nested(None);
    let mut bad = sound.clone();
    // a group without requests has tokens
    bad.levels[1].qo_indptr.push(45);
    bad.levels[1].kv_lens.push(50);
    let tokens = capacity.kv_memory_tokens.expect("ragged");
    refused(None, &capacity, &bad, &sound, &past("tokens of k and v", tokens + 50, tokens));
}

/// Changes one to three entries, to any number or to one nearby.
fn corrupt(arrays: &mut Arrays, rng: &mut SmallRng) {
    for _ in 0..rng.random_range(1..=3) {
        let level = rng.random_range(0..=arrays.levels.len());
        let of = if level < arrays.levels.len() { &mut arrays.levels[level] } else { &mut *arrays };
        let mut all = vec![&mut of.qo_indptr, &mut of.kv_lens, &mut of.page_indices];
        all.extend(&mut of.page_indptr);
        let array = rng.random_range(0..all.len());
        let Some(last) = all[array].len().checked_sub(1) else { continue };
        let entry = &mut all[array][rng.random_range(0..=last)];
        *entry = match rng.random_range(0..4) {
            0 => rng.random(),
            1 => [i32::MIN, i32::MAX, -1, 0][rng.random_range(0..4)],
            2 => 1 << rng.random_range(0..31),
            _ => entry.wrapping_add(rng.random_range(-100..=100)),
        };
    }
}

/// Random tables that are not sound, under the sanitizers. What the host refuses, the device refuses, except for pages
/// that no request needs. What the host plans, the device plans.
#[test]
#[ignore = "in a process of its own"]
fn unsound() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let (variant, heads) = (Variant::parse("causal").expect("stock"), Heads { qo: 4, kv: 1, head_dim: 64 });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile_levels(&variant, folder.path());
    let mut rng = SmallRng::seed_from_u64(7);
    let rule = mixed(DECODE, PREFILL, false, CASCADE);
    let (mut refused, mut planned) = (0, 0);
    for round in 0..80 {
        let page_size = [None, Some(16)][round % 2];
        let (capacity, sound) = nested(page_size);
        let mut bad = if round % 4 == 3 { padded(&sound, 1) } else { sound };
        corrupt(&mut bad, &mut rng);
        let mut plan = HostPlan::new(&capacity, &variant, heads, &rule).expect("small");
        planner.plan(&mut plan, &bad, page_size.map_or(0, |_| 2), round as u32 | 1);
        let host = on_host(&bad, page_size).and_then(|layout| capacity.check(&layout).map(|()| layout));
        match (host, plan.check()) {
            (Ok(layout), Ok(())) => {
                let work = WorkList::build_for(&variant, &layout, heads, &rule).expect("small");
                let mut blob = PlanBlob::default();
                blob.repack_within(&plan.capacity, &layout, &work).expect("within the capacity");
                let differs = blob.bytes.iter().zip(plan.bytes()).position(|(host, device)| host != device);
                assert!(differs.is_none(), "round {round}: byte {differs:?} of {:?}\n{bad:?}", blob.offsets);
                planned += 1;
            }
            (Err(_), Err(_)) => refused += 1,
            (host, device) => panic!("round {round}: {:?} on the host, {device:?} on the device", host.map(drop)),
        }
    }
    assert!(refused > 50 && planned > 2, "{refused} refused, {planned} planned");
}

#[test]
fn unsound_levels_touch_nothing_else() {
    attn_tests::sanitizers::run("device_levels::unsound");
}
