//! Mixed lists: invariants of every list, and results of runs, with and without levels.

use std::ops::Range;

use attn::batch::{BatchCapacity, KvSegment, Layout, PagePool};
use attn::cpu::{self, CpuError, Problem};
use attn::plan::{
    CascadeCosts, CascadePolicy, Cost, MergeItem, MixedRule, PlanBlob, PlanCapacity, PlanError, PlanRule, PlanScratch,
    Schedule, WorkItem, WorkList, WorkerStart,
};
use attn::spec::{HeadDimVo, Heads};
use attn::tensor::{Out, TensorMut};
use attn::{Variant, lang::LogitIndex, lang::RowIndex};
use proptest::prelude::*;

use super::cascade::{Cascade, Keys, Memory, cascades, crowds};
use super::{variants, worst};

fn rules() -> impl Strategy<Value = MixedRule> {
    let part = |most: u32| {
        (1..most, 1u32..80, 0u32..100, 1u32..40, (0u32..9, 1u32..9, 0u32..3)).prop_map(
            |(tile_rows, kv_align, min_span, workers, (item, block, merge))| PlanRule {
                tile_rows,
                kv_align,
                min_span,
                workers,
                cost: Cost { item, block, merge },
                schedule: Schedule::StreamK,
            },
        )
    };
    let policy = prop_oneof![Just(CascadePolicy::Auto), Just(CascadePolicy::Always), Just(CascadePolicy::Never)];
    (part(20), part(70), policy, (0u32..9, 0u32..9, 0u32..9, 0u32..99)).prop_map(
        |(decode, prefill, policy, (state, cached_block, merge_launch, decode_penalty))| MixedRule {
            decode,
            prefill: PlanRule { schedule: Schedule::LongestFirst, ..prefill },
            co_run_workers: 1 + decode_penalty % 9,
            own_sms: state % 2 == 1,
            cascade: CascadeCosts { policy, state, cached_block, merge_launch, decode_penalty },
        },
    )
}

/// The parts of a mixed list.
trait Parts {
    fn decode(&self) -> &[WorkItem];
    fn prefill(&self) -> &[WorkItem];
    /// Whether an item has rows of several requests.
    fn shares(&self) -> bool;
}

impl Parts for WorkList {
    fn decode(&self) -> &[WorkItem] {
        &self.items[self.parts[0].items.clone()]
    }

    fn prefill(&self) -> &[WorkItem] {
        &self.items[self.parts[1].items.clone()]
    }

    fn shares(&self) -> bool {
        self.items.iter().any(|item| item.requests > 1)
    }
}

fn heads(group: u32) -> Heads {
    Heads { qo: 2 * group, kv: 2, head_dim: 16 }
}

/// The keys of a request that a PackGQA row attends to under at least one KV head.
fn attended(variant: &Variant, layout: &Layout, heads: Heads, request: usize, packed: usize) -> Vec<bool> {
    let (qo_len, kv_len) = (layout.qo_len(request) as i32, layout.kv_len(request) as i32);
    let group = heads.group() as usize;
    let qo_row = (packed / group) as i32;
    let mut any = vec![false; kv_len as usize];
    for kv_head in 0..heads.kv as i32 {
        let row = RowIndex {
            batch: request as i32,
            qo_row,
            qo_pos: qo_row + kv_len - qo_len,
            qo_token: layout.qo_indptr()[request] + qo_row,
            qo_head: kv_head * group as i32 + (packed % group) as i32,
            kv_head,
            qo_len,
            kv_len,
        };
        let mut keep = vec![true; kv_len as usize];
        variant.mask_tile(&mut keep, LogitIndex { row, kv_pos: 0, kv_token: layout.kv_indptr()[request], kv_slot: 0 });
        any.iter_mut().zip(keep).for_each(|(any, keep)| *any |= keep);
    }
    any
}

/// The (request, PackGQA row) of each row of an item.
fn rows_of(layout: &Layout, group: usize, item: &WorkItem) -> Vec<(usize, usize)> {
    let begin = layout.qo_indptr()[item.request as usize] as usize * group + item.first_row as usize;
    let all =
        (0..layout.batch()).flat_map(|request| (0..layout.qo_len(request) * group).map(move |row| (request, row)));
    all.skip(begin).take(item.rows as usize).collect()
}

/// Checks that each attended (row, key) pair is in exactly one item, and that parts of merges are in the order of keys.
fn covers(variant: &Variant, layout: &Layout, heads: Heads, list: &WorkList) -> Result<(), TestCaseError> {
    let group = heads.group() as usize;
    let mut spans: Vec<Vec<(Range<usize>, i32)>> = vec![Vec::new(); layout.qo_tokens() * group];
    let first = |request: usize| layout.qo_indptr()[request] as usize * group;
    for item in &list.items {
        for (row, (request, packed)) in rows_of(layout, group, item).into_iter().enumerate() {
            let partial = if item.partial < 0 { -1 } else { item.partial + row as i32 };
            spans[first(request) + packed].push((item.kv_begin as usize..item.kv_end as usize, partial));
        }
        if item.full == 1 {
            for (request, packed) in rows_of(layout, group, item) {
                let keys =
                    &attended(variant, layout, heads, request, packed)[item.kv_begin as usize..item.kv_end as usize];
                prop_assert!(keys.iter().all(|&attended| attended), "{item:?} is not full");
            }
        }
    }
    for request in 0..layout.batch() {
        for packed in 0..layout.qo_len(request) * group {
            let spans = &mut spans[first(request) + packed];
            spans.sort_by_key(|(keys, _)| (keys.start, keys.end));
            for (key, _) in attended(variant, layout, heads, request, packed).iter().enumerate().filter(|(_, a)| **a) {
                let times = spans.iter().filter(|(keys, _)| keys.contains(&key)).count();
                prop_assert_eq!(times, 1, "request {} row {} key {}", request, packed, key);
            }
            let of_row = |merge: &&MergeItem| {
                merge.request as usize == request
                    && (merge.first_row..merge.first_row + merge.rows).contains(&(packed as i32))
            };
            let parts: Vec<i32> = spans.iter().map(|(_, partial)| *partial).collect();
            match list.merges.iter().find(of_row) {
                None => prop_assert_eq!(parts, [-1]),
                Some(merge) => {
                    let want = &list.merge_parts[merge.first as usize..][..merge.count as usize];
                    let row = packed as i32 - merge.first_row;
                    prop_assert_eq!(parts, want.iter().map(|part| part + row).collect::<Vec<_>>());
                }
            }
        }
    }
    Ok(())
}

/// The results of a run: output, then log-sum-exps.
fn output(keys: &Keys, heads: Heads, run: impl FnOnce(Out<'_>) -> Result<(), CpuError>) -> [Vec<f64>; 2] {
    let (tokens, qo) = (keys.layout.qo_tokens(), heads.qo as usize);
    let dim = heads.head_dim as usize;
    let (mut o, mut lse) = (vec![f32::NAN; tokens * qo * dim], vec![f32::NAN; tokens * qo]);
    let out = Out::with_lse(
        TensorMut::host(&mut o, &[tokens, qo, dim]).expect("the right length"),
        TensorMut::host(&mut lse, &[tokens, qo]).expect("the right length"),
    );
    run(out).expect("a sound problem");
    [o, lse].map(|x| x.into_iter().map(f64::from).collect())
}

fn problem<'a>(keys: &'a Keys, variant: &'a Variant, heads: Heads, work: &'a WorkList) -> Problem<'a> {
    let sm_scale = heads.default_sm_scale();
    Problem {
        variant,
        heads,
        head_dim_vo: HeadDimVo::Same,
        sm_scale,
        layout: &keys.layout,
        work,
        q: keys.q(),
        kv: keys.kv(),
    }
}

/// The same requests without levels.
fn flat<'a>(keys: &'a Keys, variant: &'a Variant, heads: Heads, work: &'a WorkList) -> Problem<'a> {
    Problem { layout: &keys.flat, kv: keys.flat_kv(), ..problem(keys, variant, heads, work) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// For every variant: with a mixed list where it supports levels, else with a flat list over the levels.
    #[test]
    fn a_cascade_equals_its_requests_without_levels(
        cascade in cascades(), group in 1u32..5, rule in rules(), index in 0..variants::count(),
    ) {
        let heads = heads(group);
        let keys = cascade.keys(heads);
        let (variant, _) = variants::get(index);
        let variant = variant.bind(&keys.layout.dims(heads)).expect("bound");
        let none = WorkList::default();
        let want = cpu::oracle(&flat(&keys, &variant, heads, &none)).expect("a sound problem");
        let oracle = cpu::oracle(&problem(&keys, &variant, heads, &none)).expect("a sound problem");
        prop_assert_eq!(&oracle, &want);
        let work = cpu::work_of(&variant, &[], &keys.layout, heads, &rule.prefill.into()).expect("small");
        let same = cpu::work_of(&variant, &[], &keys.flat, heads, &rule.prefill.into()).expect("small");
        let [o, lse] = output(&keys, heads, |out| cpu::run(&problem(&keys, &variant, heads, &work), out));
        let alone = output(&keys, heads, |out| cpu::run(&flat(&keys, &variant, heads, &same), out));
        prop_assert_eq!(&[o, lse], &alone, "the same work over keys elsewhere");
        let supported = WorkList::supports(&variant, keys.layout.has_levels());
        let list = WorkList::build_for(&variant, &keys.layout, heads, &rule.into());
        let Ok(()) = supported else {
            let shifts = matches!(supported, Err(PlanError::PerRequestKvTransform { part: "shifted", word: "batch" }));
            prop_assert!(variant.has_union() || variant.has_kv_list() || shifts, "{supported:?}");
            prop_assert_eq!(list.map(|_| ()), supported);
            return Ok(());
        };
        let list = list.expect("small");
        prop_assert_eq!(list.check(&keys.layout), Ok(()));
        let [o, lse] = output(&keys, heads, |out| cpu::run(&problem(&keys, &variant, heads, &list), out));
        prop_assert!(worst(&o, &want.o) <= 2e-5, "o is {} off", worst(&o, &want.o));
        prop_assert!(worst(&lse, &want.lse) <= 2e-5, "lse is {} off", worst(&lse, &want.lse));
        covers(&variant, &keys.layout, heads, &list)?;
        // the same requests in two parts, without levels
        let list = WorkList::build_for(&variant, &keys.flat, heads, &rule.into()).expect("small");
        prop_assert_eq!(list.check(&keys.flat), Ok(()));
        let [o, lse] = output(&keys, heads, |out| cpu::run(&flat(&keys, &variant, heads, &list), out));
        prop_assert!(worst(&o, &want.o) <= 2e-5, "o is {} off", worst(&o, &want.o));
        prop_assert!(worst(&lse, &want.lse) <= 2e-5, "lse is {} off", worst(&lse, &want.lse));
        covers(&variant, &keys.flat, heads, &list)?;
    }

    /// A table without levels has the same keys.
    #[test]
    fn a_flattened_cascade_reads_the_same_keys(cascade in cascades(), index in 0..variants::count()) {
        let heads = heads(2);
        let keys = cascade.keys(heads);
        let Some(layout) = keys.layout.flattened() else {
            let full = matches!(cascade.memory, Memory::Paged { full: true, .. });
            prop_assert!(!full);
            return Ok(());
        };
        prop_assert_eq!(layout.kv_indptr(), keys.layout.kv_indptr());
        let (variant, _) = variants::get(index);
        let variant = variant.bind(&layout.dims(heads)).expect("bound");
        let none = WorkList::default();
        let flat = Problem { layout: &layout, ..problem(&keys, &variant, heads, &none) };
        prop_assert_eq!(cpu::oracle(&flat), cpu::oracle(&problem(&keys, &variant, heads, &none)));
    }

    #[test]
    fn lists_rebuilt_in_place_are_the_same_and_blobs_hold_them(
        one in cascades(), two in cascades(), group in 1u32..5, rule in rules(),
    ) {
        let heads = heads(group);
        let (mut list, mut scratch, mut blob) = (WorkList::default(), PlanScratch::default(), PlanBlob::default());
        for cascade in [&one, &two, &one] {
            let keys = cascade.keys(heads);
            for layout in [&keys.layout, &keys.flat] {
                list.rebuild_for(&mut scratch, &Variant::full(), &[], layout, heads, &rule.into()).expect("small");
                let anew = WorkList::build_for(&Variant::full(), layout, heads, &rule.into()).expect("small");
                prop_assert_eq!(&list, &anew);
                blob.repack(layout, &list);
                packed(&blob, layout, &list)?;
            }
        }
    }

    #[test]
    fn every_batch_within_a_capacity_fits_the_plan(
        lens in prop::collection::vec((0u32..60, 0u32..400), 1..7), group in 1u32..5, rule in rules(),
        over in (1u32..4, 1u32..4), keep in 0usize..7, rotation in 0usize..7,
    ) {
        let heads = heads(group);
        let layout = |lens: &[(u32, u32)]| {
            let (qo, kv): (Vec<u32>, Vec<u32>) = lens.iter().copied().unzip();
            let ends = [qo, kv].map(|lens| attn::batch::indptr(&lens).expect("short"));
            attn::batch::Batch::ragged(&ends[0], &ends[1]).validate().expect("sound")
        };
        let whole = layout(&lens);
        let capacity = BatchCapacity::of(&whole);
        let plan_capacity = PlanCapacity::of(&capacity, &Variant::full(), heads, &rule.into()).expect("small");
        let less: Vec<_> = lens.iter().take(keep).map(|&(qo, kv)| (qo / over.0, kv / over.1)).collect();
        // other distributions of the same numbers of queries and keys
        let mut rotated: Vec<_> = lens.clone();
        let keys: Vec<u32> = lens.iter().map(|&(_, kv)| kv).collect();
        rotated.iter_mut().enumerate().for_each(|(i, of)| of.1 = keys[(i + rotation) % keys.len()]);
        let single: Vec<_> = lens.iter().map(|&(qo, kv)| (qo.min(1), kv)).collect();
        let mut all = vec![(0, 0); lens.len()];
        all[rotation % lens.len()] = (lens.iter().map(|&(qo, _)| qo).max().unwrap_or(0), keys.iter().sum());
        let mut blob = PlanBlob::default();
        let mut at = None;
        for lens in [&lens, &less, &rotated, &single, &all] {
            let layout = layout(lens);
            capacity.check(&layout).expect("within it");
            let list = WorkList::build_for(&Variant::full(), &layout, heads, &rule.into()).expect("small");
            prop_assert_eq!(list.check(&layout), Ok(()));
            prop_assert_eq!(plan_capacity.check(&layout, &list), Ok(()));
            blob.repack_within(&plan_capacity, &layout, &list).expect("within the capacity");
            let offsets = at.get_or_insert_with(|| blob.offsets.clone());
            prop_assert_eq!(&*offsets, &blob.offsets);
            packed(&blob, &layout, &list)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The lists of a cascade, of its batch without levels, and of any other batch within the capacity fit the plan.
    #[test]
    fn every_cascade_within_a_capacity_fits_the_plan(
        cascades in prop::collection::vec(prop_oneof![cascades(), crowds()], 2), group in 1u32..20, rule in rules(),
        over in any::<bool>(),
    ) {
        let heads = Heads { qo: group, kv: 1, head_dim: 1 };
        let keys: Vec<Keys> = cascades.iter().map(|cascade| cascade.keys(heads)).collect();
        let capacities = keys.iter().map(|keys| BatchCapacity::of(&keys.layout));
        // a capacity for the first cascade, or for both
        let capacity = capacities.take(if over { 2 } else { 1 }).reduce(larger).expect("one");
        let capacity = capacity.in_levels(capacity.levels.max(2));
        let plan_capacity = PlanCapacity::of(&capacity, &Variant::full(), heads, &rule.into()).expect("small");
        let layouts_of = |keys: &Keys| [Some(keys.layout.clone()), Some(keys.flat.clone()), keys.layout.flattened()];
        let layouts = keys.iter().flat_map(layouts_of);
        let within = layouts.flatten().filter(|layout| capacity.check(layout).is_ok());
        let (mut blob, mut at, mut batches) = (PlanBlob::default(), None, 0);
        for layout in within.chain([Layout::default()]) {
            for policy in [rule.cascade.policy, CascadePolicy::Always] {
                let rule = MixedRule { cascade: CascadeCosts { policy, ..rule.cascade }, ..rule };
                let list = WorkList::build_for(&Variant::full(), &layout, heads, &rule.into()).expect("small");
                prop_assert_eq!(plan_capacity.check(&layout, &list), Ok(()), "{:?} {:?}", capacity, rule);
                blob.repack_within(&plan_capacity, &layout, &list).expect("within the capacity");
                let offsets = at.get_or_insert_with(|| blob.offsets.clone());
                prop_assert_eq!(&*offsets, &blob.offsets);
                packed(&blob, &layout, &list)?;
            }
            batches += 1;
        }
        prop_assert!(batches >= 2, "the first, and nobody");
        prop_assert_eq!(at.map(|at| at.request_of_query.len()), Some(4 * capacity.qo_tokens as usize));
    }
}

/// A capacity that admits the batches of both, with the pages of the first.
fn larger(one: BatchCapacity, two: BatchCapacity) -> BatchCapacity {
    let pool = |pool: Option<PagePool>| pool.map_or(0, |pool| pool.num_pages);
    BatchCapacity {
        requests: one.requests.max(two.requests),
        qo_len: one.qo_len.max(two.qo_len),
        qo_tokens: one.qo_tokens.max(two.qo_tokens),
        kv_tokens: one.kv_tokens.max(two.kv_tokens),
        pages: one.pages.map(|of| PagePool { num_pages: of.num_pages.max(pool(two.pages)), ..of }),
        levels: one.levels.max(two.levels),
        kv_memory_tokens: one.kv_memory_tokens.max(two.kv_memory_tokens),
    }
}

fn read<T: bytemuck::AnyBitPattern>(blob: &PlanBlob, range: &Range<usize>) -> Vec<T> {
    let end = range.end.min(blob.bytes.len());
    blob.bytes[range.start..end].chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// A blob holds the batch and its list; unused entries hold no work.
fn packed(blob: &PlanBlob, layout: &Layout, list: &WorkList) -> Result<(), TestCaseError> {
    let at = &blob.offsets;
    fn begins<T: PartialEq + std::fmt::Debug + Copy>(
        got: &[T],
        want: &[T],
        rest: impl Fn(T) -> bool,
    ) -> Result<(), TestCaseError> {
        prop_assert_eq!(&got[..want.len()], want);
        prop_assert!(got[want.len()..].iter().all(|&x| rest(x)));
        Ok(())
    }
    let sums = |range: &Range<usize>, want: &[i32]| {
        begins(&read::<i32>(blob, range), want, |end| end == *want.last().expect("one"))
    };
    sums(&at.qo_indptr, layout.qo_indptr())?;
    sums(&at.kv_indptr, layout.kv_indptr())?;
    let items: Vec<WorkItem> = read(blob, &at.items);
    for (part, entries) in list.parts.iter().zip(&at.parts) {
        begins(&items[entries.items.clone()], &list.items[part.items.clone()], |item| item.rows == 0)?;
    }
    begins(&read(blob, &at.merges), &list.merges, |merge: MergeItem| merge.count == 0)?;
    begins(&read(blob, &at.merge_parts), &list.merge_parts, |part: i32| part == 0)?;
    let starts: Vec<WorkerStart> = read(blob, &at.workers);
    for (worker, ends) in list.workers.windows(2).enumerate() {
        let first = list.decode().get(ends[0] as usize).filter(|_| ends[0] < ends[1]).copied().unwrap_or_default();
        prop_assert_eq!((starts[worker].first, starts[worker].end, starts[worker].item), (ends[0], ends[1], first));
    }
    prop_assert!(starts[list.workers.len().saturating_sub(1)..].iter().all(|start| start.first == start.end));
    if let Some(pages) = layout.pages() {
        prop_assert_eq!(&read::<i32>(blob, &at.page_indices)[..pages.indices().len()], pages.indices());
    }
    let of_query: Vec<i32> = read(blob, &at.request_of_query);
    prop_assert!(!layout.has_levels() || of_query.len() >= layout.qo_tokens());
    if !of_query.is_empty() {
        for request in 0..layout.batch() {
            let queries = layout.qo_indptr()[request] as usize..layout.qo_indptr()[request + 1] as usize;
            prop_assert!(of_query[queries].iter().all(|&of| of as usize == request));
        }
    }
    // the K/V preprocessing kernel finds each key by its index
    let (ends, segments): (Vec<i32>, Vec<KvSegment>) = (read(blob, &at.segment_ends), read(blob, &at.segments));
    prop_assert_eq!(ends.len().saturating_sub(1), segments.len());
    for (ends, segment) in ends.windows(2).zip(&segments) {
        prop_assert_eq!(ends[1] - ends[0], segment.keys);
        prop_assert!(segment.keys == 0 || segment.pass == ends[0]);
        for item in list.items.iter().filter(|item| item.kv_len > 0 && item.pass == segment.pass && item.requests > 0) {
            prop_assert!(segment.keys == 0 || (item.memory, item.kv_first) == (segment.memory, segment.kv_begin));
        }
    }
    Ok(())
}

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
        levels: vec![(vec![0, requests as i32], vec![shared]), ((0..=requests as i32).collect(), vec![own; requests])],
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
    let ends = [lens, kv].map(|lens| attn::batch::indptr(&lens).expect("short"));
    let layout = attn::batch::Batch::ragged(&ends[0], &ends[1]).validate().expect("sound");
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
