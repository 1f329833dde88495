//! The planning kernel of batches with levels: its output equals the plan that the host packs, bit for bit, over random
//! cascades, and it refuses what the host refuses.
//!
//! The kernel is compiled for the host. Between two barriers its threads run one after the other in random order.

use attn_core::Variant;
use attn_core::batch::{
    Batch, BatchCapacity, BatchError, CascadeLevel, CascadeLevelKv, I32Slice, Layout, PagePool, PageTableBuf, indptr,
};
use attn_core::plan::{CascadeCosts, CascadePolicy, Cost, ListRule, MixedRule, PlanBlob, PlanRule, Schedule, WorkList};
use attn_core::spec::Heads;
use attn_tests::device_plan::{Arrays, HostPlan, HostPlanner};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// Pages of the pool.
const PAGES: u32 = 1000;

const DECODE: PlanRule = PlanRule {
    tile_rows: 8,
    kv_align: 64,
    min_span: 128,
    workers: 33,
    cost: Cost { item: 1000, block: 2000, merge: 100 },
    schedule: Schedule::StreamK,
};

const PREFILL: PlanRule = PlanRule {
    tile_rows: 64,
    kv_align: 128,
    min_span: 256,
    cost: Cost { item: 2400, block: 1550, merge: 100 },
    schedule: Schedule::LongestFirst,
    ..DECODE
};

const CASCADE: CascadeCosts =
    CascadeCosts { policy: CascadePolicy::Auto, state: 200, cached_block: 900, merge_launch: 0, decode_penalty: 0 };

fn mixed(decode: PlanRule, prefill: PlanRule, own_sms: bool, cascade: CascadeCosts) -> ListRule {
    ListRule::Mixed(MixedRule {
        decode: PlanRule { schedule: Schedule::StreamK, ..decode },
        prefill: PlanRule { schedule: Schedule::LongestFirst, ..prefill },
        co_run_workers: decode.workers.div_ceil(2),
        own_sms,
        cascade,
    })
}

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

    /// What host and device take. Pages of the device's tables have surplus entries.
    fn arrays(&self, page_size: Option<u32>, rng: &mut SmallRng) -> (Result<Layout, BatchError>, Arrays) {
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
                        let spare = vec![-9; if rng.random_range(0..5) == 0 { rng.random_range(0..3) } else { 0 }];
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
fn compare(planner: &HostPlanner, variant: &Variant, heads: Heads, batches: &[(Layout, Arrays)], rule: &ListRule) {
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
        for (how, arrays) in padded.iter().map(|arrays| ("padded", arrays)).chain([("compressed", arrays)]) {
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
            let (layout, arrays) = Cascade::random(&mut rng).arrays(page_size, &mut rng);
            batches.extend(layout.map(|layout| (layout, arrays)));
        }
        for _ in 0..3 {
            compare(&planner, &variant, heads, &batches, &random_mixed(&mut rng));
        }
    }
}

#[test]
fn device_plans_of_random_cascades_equal_host_plans() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    random_cascades("full", Heads { qo: 4, kv: 1, head_dim: 64 }, 30, 1);
}

#[test]
fn device_plans_of_cascades_under_masks_equal_host_plans() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let heads = Heads { qo: 6, kv: 2, head_dim: 64 };
    random_cascades("causal", heads, 10, 2);
    random_cascades("causal + sliding_window(window=300)", heads, 10, 3);
    random_cascades("or(chunked(chunk=500), streaming(sink=20, window=100)) + causal", heads, 10, 4);
}
