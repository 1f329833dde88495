//! Mixed lists: invariants of every list, and results of runs, with and without levels.

mod capacities;
mod covers;
mod examples;

use attn_core::Variant;
use attn_core::batch::BatchCapacity;
use attn_core::cpu::{self, CpuError, Problem};
use attn_core::plan::{
    CascadeCosts, CascadePolicy, Cost, MixedRule, PlanBlob, PlanCapacity, PlanError, PlanRule, PlanScratch, Schedule,
    WorkItem, WorkList,
};
use attn_core::spec::{HeadDimVo, Heads};
use attn_core::tensor::{Out, TensorMut};
use proptest::prelude::*;

use super::cascade::{Keys, Memory, cascades};
use super::{variants, worst};
use capacities::packed;
use covers::covers;

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
            let ends = [qo, kv].map(|lens| attn_core::batch::indptr(&lens).expect("short"));
            attn_core::batch::Batch::ragged(&ends[0], &ends[1]).validate().expect("sound")
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
