//! Kernel selection by the built-in costs: which kernel a batch runs.

use attn_core::{
    batch::{Batch, CascadeLevel, CascadeLevelKv, indptr},
    dtype::{Dtype, Dtypes},
    spec::HeadDimVo,
};
use proptest::prelude::*;

use super::mixed::OwnSms;
use super::*;
use crate::{compile::Arch, cost::Costs};

const GROUPED: Heads = Heads { qo: 32, kv: 8, head_dim: 128 };
/// Resident CTAs per KV head, for 8 KV heads on an H200 with two CTAs per SM.
const WORKERS: u64 = 33;

fn layout(qo: &[u32], kv: &[u32]) -> Layout {
    let (qo, kv) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
    Batch::ragged(&qo, &kv).validate().expect("sound")
}

/// By the built-in costs, where nothing is fixed.
fn kernels(request: &KernelTraitsRequest, hooks: HookClass, heads: Heads, multiprocessors: u32) -> KernelSelector {
    let costs = CostTable::default();
    KernelSelector::new(request, hooks, &costs, heads, multiprocessors, FixedChoice::default()).expect("supported")
}

/// Round costs: 64 keys of a decode tile cost 2 us, those of a prefill tile 3 us.
fn selector() -> KernelSelector {
    let costs = |block, merge_launch| Costs {
        launch: 8000,
        item: 1000,
        block,
        first: 0,
        merge_launch,
        merge: 100,
        ctas_per_sm: 2,
    };
    let candidate = |kind, rows, tile_rows, costs| Candidate {
        kernel: SelectedKernel { kind, rows, special: None },
        tile_rows,
        workers: WORKERS,
        waves: 1,
        costs,
    };
    let candidates = vec![
        candidate(KernelKind::Decode, 8, 8, costs(2000, 1500)),
        candidate(KernelKind::Decode, 16, 16, costs(2100, 1500)),
        candidate(KernelKind::Prefill, 0, 128, costs(3000, 4000)),
    ];
    KernelSelector {
        heads: GROUPED,
        request: KernelTraitsRequest::new(KernelKind::Decode, 128, Dtypes::bf16(), Arch::new(8, 0)),
        mixed_prefill: PrefillBackend::Sm80,
        fixed: FixedChoice::default(),
        candidates,
        special: None,
        mixed: None,
        max_mixed_rows: 16,
    }
}

/// The same, where mixed launches are candidates.
fn selector_of_mixed(own_sms: Option<OwnSms>) -> KernelSelector {
    let selector = selector();
    let (decode, prefill) = (selector.candidates[..2].to_vec(), selector.candidates[2]);
    KernelSelector { mixed: Some(MixedLaunches { decode, prefill, same_prefill: true, own_sms }), ..selector }
}

/// The prediction of a mixed launch for a batch with both kinds of requests.
fn co_run(selector: &KernelSelector, qo: &[u32], kv: &[u32]) -> CoRun {
    selector.mixed.as_ref().expect("a candidate").predict(&layout(qo, kv), 4).expect("both kinds of requests")
}

const D8: SelectedKernel = SelectedKernel { kind: KernelKind::Decode, rows: 8, special: None };
const D16: SelectedKernel = SelectedKernel { rows: 16, ..D8 };

/// The kernel for `common` requests of one query and `keys` keys, and one other request.
fn with(common: usize, keys: u32, (qo, kv): (u32, u32)) -> SelectedKernel {
    let mut lens = (vec![1; common], vec![keys; common]);
    lens.0.push(qo);
    lens.1.push(kv);
    selector().fastest(&layout(&lens.0, &lens.1))
}

/// The predicted time of a batch in one candidate.
fn time(candidate: usize, qo: &[u32], kv: &[u32]) -> u64 {
    let selector = selector();
    selector.candidates[candidate].time(&selector.sizes(&layout(qo, kv), 4)[candidate])
}

#[test]
fn requests_of_one_tile_run_decode() {
    let selector = selector();
    for len in [1, 64, 4096] {
        assert_eq!(selector.fastest(&layout(&[1; 64], &[len; 64])), D8);
        assert_eq!(selector.fastest(&layout(&[2; 64], &[len; 64])), D8, "8 rows");
        assert_eq!(selector.fastest(&layout(&[4; 64], &[len; 64])), D16, "16 rows");
    }
    assert_eq!(selector.fastest(&layout(&[], &[])), D8);
    assert_eq!(selector.fastest(&layout(&[0, 1], &[9, 9])), D8);
}

#[test]
fn one_longer_request_does_not_move_a_batch_to_prefill() {
    // 63 requests of one query and one of five (20 rows): 66 small tiles, or 65 large ones that cost 5 % more each; a
    // prefill tile costs 50 % more
    assert_eq!(with(63, 4096, (5, 4096)), D8);
    // 64 rows are eight small tiles or four large ones
    assert_eq!(with(63, 4096, (16, 4096)), D16);
    // 12 rows are two small tiles or one large one
    assert_eq!(with(63, 4096, (3, 4096)), D8);
    assert_eq!(with(2, 4096, (3, 4096)), D16);
}

#[test]
fn among_similar_times_the_least_busy_kernel_is_selected() {
    // 12 rows alone: splitting does not pay, and two small tiles run concurrently
    for keys in [1, 70, 128] {
        assert_eq!(with(0, 0, (3, keys)), D16);
    }
    // the same where more splits would only mean more merging
    assert_eq!(with(0, 0, (4, 131_072)), D16);
    let [small, large] = [0, 1].map(|candidate| time(candidate, &[4], &[128]));
    assert!(small < large, "the small tiles would finish sooner: {small} ns, {large} ns");
}

#[test]
fn more_heads_than_resident_ctas_take_several_waves() {
    let request = KernelTraitsRequest::new(KernelKind::Decode, 128, Dtypes::bf16(), Arch::new(8, 0));
    let candidate = |kv| {
        let heads = Heads { qo: kv, kv, head_dim: 128 };
        kernels(&request, HookClass::None, heads, 16).candidates[0]
    };
    let ctas = candidate(1).workers as u32;
    assert_eq!((candidate(ctas).workers, candidate(ctas).waves), (1, 1));
    assert_eq!((candidate(ctas + 1).workers, candidate(ctas + 1).waves), (1, 2));
    let size = BatchSize { tiles: 1, tile_keys: 4096, keys: 4096, longest: 4096 };
    let launch = u64::from(candidate(1).costs.launch);
    assert_eq!(candidate(ctas + 1).time(&size) - launch, 2 * (candidate(ctas).time(&size) - launch));
}

#[test]
fn prompts_run_prefill() {
    // 2,048 queries are 512 decode tiles of 2,048 keys each
    assert_eq!(with(63, 4096, (2048, 2048)), SelectedKernel::PREFILL);
    assert_eq!(with(0, 0, (2048, 2048)), SelectedKernel::PREFILL);
    // 64 rows: four decode tiles or one prefill tile
    assert_eq!(selector().fastest(&layout(&[16; 64], &[4096; 64])), SelectedKernel::PREFILL);
}

#[test]
fn a_short_prompt_among_long_requests_stays_in_decode() {
    // 128 queries over 128 keys: 64 small tiles of two blocks, beside 63 tiles of 512 blocks
    assert_eq!(with(63, 32_768, (128, 128)), D8);
    // over a long context they run prefill
    assert_eq!(with(63, 32_768, (1024, 32_768)), SelectedKernel::PREFILL);
}

#[test]
fn whole_prefill_tiles_leave_workers_idle() {
    let time = |requests: usize| time(2, &vec![32; requests], &vec![4096; requests]);
    let tile = 1000 + 64 * 3000;
    assert_eq!(time(33), 8000 + tile);
    assert_eq!(time(34), 8000 + 2 * tile, "a second tile for one worker");
    assert_eq!(time(66), 8000 + 2 * tile);
    // fewer tiles than workers are split
    assert_eq!(time(11), 8000 + tile / 3 + 4000 + 4 * 100);
}

#[test]
fn stream_k_splits_are_not_shorter_than_the_minimum() {
    let time = |lens: &[u32]| time(0, &vec![1; lens.len()], lens);
    let tile = |keys: u64| 1000 + keys / 64 * 2000;
    assert_eq!(time(&[4096; 33]), 8000 + tile(4096));
    assert_eq!(time(&[4096; 34]), 8000 + 34 * tile(4096) / 33 + if 34 * tile(4096) / 33 < tile(4096) { 1 } else { 0 });
    // one request of 128 keys is not split
    assert_eq!(time(&[128]), 8000 + tile(128));
    assert_eq!(time(&[]), 8000);
}

#[test]
fn every_problem_has_candidates_and_a_single_prompt_runs_prefill() {
    for (head_dim, kv) in [64, 128, 256].into_iter().flat_map(|dim| [(dim, Dtype::Bf16), (dim, Dtype::E4m3)]) {
        for (arch, multiprocessors) in [(Arch::new(8, 0), 108), (Arch::for_device(9, 0), 132), (Arch::new(12, 0), 188)]
        {
            for hooks in [HookClass::None, HookClass::Logits, HookClass::Rewrites] {
                let rewrites = hooks == HookClass::Rewrites;
                let request = KernelTraitsRequest {
                    key_hooks: rewrites,
                    ..KernelTraitsRequest::new(KernelKind::Prefill, head_dim, Dtypes::bf16().with_kv(kv), arch)
                };
                let heads = Heads { head_dim, ..GROUPED };
                let selector = kernels(&request, hooks, heads, multiprocessors);
                assert_eq!(selector.candidates.len(), if head_dim == 256 { 2 } else { 3 });
                assert_eq!(selector.fastest(&layout(&[1; 64], &[4096; 64])), D8);
                assert_eq!(
                    selector.fastest(&layout(&[4096], &[4096])),
                    SelectedKernel::PREFILL,
                    "{arch} {head_dim} {hooks:?}"
                );
                // 16 rows are one tile unless head_dim is 256
                let few = selector.fastest(&layout(&[4; 64], &[4096; 64]));
                assert!(head_dim == 256 || few.kind == KernelKind::Decode, "{arch} {head_dim} {hooks:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn the_selection_does_not_depend_on_the_order_of_requests(
        lens in proptest::collection::vec((0u32..70, 0u32..9000), 0..40), shift in 0usize..40,
    ) {
        let selector = selector();
        let of = |lens: &[(u32, u32)]| {
            let (qo, kv): (Vec<u32>, Vec<u32>) = lens.iter().copied().unzip();
            selector.fastest(&layout(&qo, &kv))
        };
        let mut rotated = lens.clone();
        rotated.rotate_left(shift % lens.len().max(1));
        prop_assert_eq!(of(&lens), of(&rotated));
        let most = lens.iter().map(|&(qo, _)| qo * 4).max().unwrap_or(0);
        if most <= 8 {
            prop_assert_eq!(of(&lens), D8);
        }
    }

    #[test]
    fn more_work_never_takes_less_time(lens in proptest::collection::vec((1u32..70, 0u32..9000), 1..40)) {
        let (qo, kv): (Vec<u32>, Vec<u32>) = lens.iter().copied().unzip();
        let longer: Vec<u32> = kv.iter().map(|len| len * 2).collect();
        for candidate in 0..3 {
            // a split more or less changes the time by a merge
            prop_assert!(time(candidate, &qo, &kv) <= time(candidate, &qo, &longer) + 8000, "{candidate}");
        }
    }
}

/// The kernel for a batch if mixed launches are candidates, under the same costs.
fn with_mixed(qo: &[u32], kv: &[u32]) -> SelectedKernel {
    selector_of_mixed(None).fastest(&layout(qo, kv))
}

#[test]
fn a_mixed_launch_is_selected_where_both_parts_are_long() {
    let mixed = |rows| SelectedKernel { kind: KernelKind::Mixed, rows, special: None };
    let (qo, kv) = ([vec![512; 8], vec![1; 64]].concat(), vec![4096; 72]);
    assert_eq!(with_mixed(&qo, &kv), mixed(8));
    let (drafts, kv) = ([vec![512; 8], vec![4; 64]].concat(), vec![4096; 72]);
    assert_eq!(with_mixed(&drafts, &kv), mixed(16), "16 rows of a request that decodes");
    // with prefill alone, a long request of one query would be one tile that finishes last
    let kv: Vec<u32> = [8192, 32768].into_iter().chain((0..31).map(|i| 512 + 96 * i)).collect();
    assert_eq!(with_mixed(&[vec![8192], vec![1; 32]].concat(), &kv), mixed(8));
    // requests of one kind do not need a mixed launch
    assert_eq!(with_mixed(&[512; 8], &[4096; 8]), SelectedKernel::PREFILL);
    assert_eq!(with_mixed(&[1; 64], &[4096; 64]), D8);
    // a tiny decode part does not justify a mixed launch
    assert_ne!(with_mixed(&[2048, 1], &[2048, 8]).kind, KernelKind::Mixed);
}

#[test]
fn the_decode_tile_of_a_cascade_holds_groups_that_share_a_prefix() {
    let (qo, own): (Vec<i32>, Vec<i32>) = ((0..=4).collect(), (0..=4).map(|i| 10 * i).collect());
    let rows = |group: u32, ends: &[i32]| {
        let shared: Vec<i32> = (0..ends.len() as i32).map(|i| 64 * i).collect();
        let levels = [
            CascadeLevel { qo_indptr: ends, kv: CascadeLevelKv::Ragged(&shared) },
            CascadeLevel { qo_indptr: &qo, kv: CascadeLevelKv::Ragged(&own) },
        ];
        let layout = Batch::cascade(&qo, &levels).validate().expect("sound");
        KernelSelector { heads: Heads { qo: 8 * group, ..GROUPED }, ..selector() }.max_decode_request_rows(&layout)
    };
    assert_eq!((rows(1, &[0, 4]), rows(4, &[0, 4]), rows(4, &[0, 2, 4])), (4, 16, 8));
    assert_eq!(rows(8, &[0, 4]), 8, "32 rows are prefill's");
}

#[test]
fn the_decode_tile_of_a_capacity_with_levels_holds_groups() {
    let rows = |qo_len| selector().mixed_for_levels(qo_len).rows;
    assert_eq!(rows(1), 16); // four requests that share a prompt, and not one alone
    assert_eq!(rows(4), 16);
    assert_eq!(rows(5), 8, "20 rows do not fit a tile, so it holds one query");
}

#[test]
fn a_mixed_launch_takes_the_longer_part_and_a_share_of_the_shorter() {
    let selector = selector_of_mixed(None);
    let (qo, kv) = ([vec![512; 8], vec![1; 64]].concat(), vec![4096; 72]);
    let CoRun { time, prefill: of_prefill, rows } = co_run(&selector, &qo, &kv);
    let alone = |candidate: usize, qo: &[u32], kv: &[u32]| time_of(&selector, candidate, qo, kv) - 8000;
    let (decode, prefill) = (alone(0, &[1; 64], &[4096; 64]), alone(2, &[512; 8], &[4096; 8]));
    assert_eq!((time, rows), (8000 + decode.max(prefill) + decode.min(prefill) / 16 * 9, 8));
    assert_eq!(of_prefill, prefill);
}

fn time_of(selector: &KernelSelector, candidate: usize, qo: &[u32], kv: &[u32]) -> u64 {
    selector.candidates[candidate].time(&selector.sizes(&layout(qo, kv), 4)[candidate])
}

/// The same costs, with decode CTAs on SMs of their own: those of 132 SMs and 8 KV heads.
fn on_own_sms() -> KernelSelector {
    selector_of_mixed(Some(OwnSms { multiprocessors: 132, kv_heads: 8, time: [2, 3] }))
}

#[test]
fn a_mixed_launch_on_own_sms_takes_what_both_parts_take_on_all() {
    let selector = on_own_sms();
    let (qo, kv) = ([vec![512; 8], vec![1; 64]].concat(), vec![4096; 72]);
    let CoRun { time, prefill, rows } = co_run(&selector, &qo, &kv);
    // per KV head, in CTAs of which two share an SM: 64 decode tiles (two thirds), and 128 prefill tiles, of 64 blocks
    let (decode, tile) = (64 * (1000 + 64 * 2000) / 2 / 3 * 2, 1000 + 64 * 3000);
    let both = (decode + 128 * tile / 2) * 8 / 132;
    assert_eq!((time, rows), (8000 + both + tile / 2 + 4000, 8));
    assert_eq!(prefill, time_of(&selector, 2, &[512; 8], &[4096; 8]) - 8000);
    assert_eq!(selector.fastest(&layout(&qo, &kv)), SelectedKernel { kind: KernelKind::Mixed, rows: 8, special: None });
    // where keys are preprocessed, those of decode are not
    let mut preprocessing = on_own_sms();
    preprocessing.mixed.as_mut().expect("a candidate").prefill.costs.first = 640;
    let more = 8 * 4096 / 64 * 640 / 2;
    let with = co_run(&preprocessing, &qo, &kv).time;
    assert_eq!(with, 8000 + (decode + 128 * tile / 2 + more) * 8 / 132 + (tile + 64 * 640) / 2 + 4000);
    // where memory is the bound, decode takes as long as it does alone
    let (qo, kv) = ([vec![32], vec![1; 512]].concat(), vec![4096; 513]);
    let time = co_run(&selector, &qo, &kv).time;
    assert_eq!(time, time_of(&selector, 0, &[1; 512], &[4096; 512]) + 4000);
    // a tiny decode part does not justify a mixed launch
    assert_ne!(selector.fastest(&layout(&[2048, 1], &[2048, 8])).kind, KernelKind::Mixed);
}

#[test]
fn decode_has_own_sms_beside_sm90_prefill_alone() {
    let selector = |arch, head_dim, kv, prefill| {
        let request = KernelTraitsRequest::new(KernelKind::Prefill, head_dim, Dtypes::bf16(), arch);
        let (heads, request) = (Heads { qo: 4 * kv, kv, head_dim }, KernelTraitsRequest { prefill, ..request });
        let of = kernels(&request, HookClass::None, heads, 132);
        of.mixed.map_or((false, 0), |mixed| (mixed.own_sms.is_some(), mixed.decode.len()))
    };
    let hopper = Arch::for_device(9, 0);
    assert_eq!(selector(hopper, 128, 8, PrefillBackend::Sm90), (true, 2));
    assert_eq!(selector(hopper, 64, 88, PrefillBackend::Sm90), (true, 2));
    assert_eq!(selector(hopper, 128, 89, PrefillBackend::Sm90), (false, 2), "two thirds of the SMs decode");
    assert_eq!(selector(hopper, 128, 8, PrefillBackend::Sm80), (false, 2));
    assert_eq!(selector(hopper, 256, 8, PrefillBackend::Sm90), (false, 0));
    assert_eq!(selector(Arch::for_device(10, 0), 128, 8, PrefillBackend::Sm90), (false, 2));
}

const RESIDENT: SelectedKernel =
    SelectedKernel { special: Some(PrefillBackend::Sm90Resident), ..SelectedKernel::PREFILL };

#[test]
fn prefill_of_short_requests_keeps_their_keys_in_shared_memory() {
    let selector = |qo, head_dim, prefill, (row_invariant, fixed)| {
        let of = KernelTraitsRequest::new(KernelKind::Prefill, head_dim, Dtypes::bf16(), Arch::for_device(9, 0));
        let (of, heads) = (KernelTraitsRequest { prefill, row_invariant, ..of }, Heads { qo, kv: 8, head_dim });
        KernelSelector::new(&of, HookClass::None, &CostTable::default(), heads, 132, fixed).expect("supported")
    };
    let (short, long) = (layout(&[128; 64], &[128; 64]), layout(&[128, 129], &[128, 129]));
    let choice = FixedChoice::default();
    let forced = FixedChoice { forced: Some(KernelKind::Prefill), ..choice };
    let (free, named, fixed_split) = ((false, choice), (false, forced), (true, choice));
    let union = (false, FixedChoice { shares_partials: true, ..choice });
    use PrefillBackend::{Sm80, Sm90, Sm90Resident};
    for (qo, head_dim, prefill, fixed, selected) in [
        (32, 128, Sm90, free, RESIDENT),
        // 12 tokens of 5 heads are 60 rows of a warpgroup
        (40, 128, Sm90, free, RESIDENT),
        (32, 128, Sm90, union, SelectedKernel::PREFILL),
        (32, 128, Sm90, named, SelectedKernel::PREFILL),
        (32, 128, Sm90, fixed_split, SelectedKernel::PREFILL),
        (32, 256, Sm90, free, SelectedKernel::PREFILL),
        (32, 64, Sm90, free, SelectedKernel::PREFILL),
        (32, 128, Sm80, free, SelectedKernel::PREFILL),
        // options name it
        (40, 128, Sm90Resident, named, RESIDENT),
        (40, 128, Sm90Resident, (true, forced), SelectedKernel::PREFILL),
    ] {
        let selector = selector(qo, head_dim, prefill, fixed);
        assert_eq!(selector.select(&short), selected, "{qo} {head_dim} {prefill} {fixed:?}");
        assert_eq!(selector.select(&long), SelectedKernel::PREFILL);
    }
}

#[test]
fn e4m3_compute_runs_in_the_usual_prefill_kernel_alone() {
    let dtypes = Dtypes::new(Dtype::Bf16, Dtype::E4m3);
    let of = KernelTraitsRequest::new(KernelKind::Prefill, 128, dtypes, Arch::for_device(9, 0));
    let short = layout(&[128; 64], &[128; 64]);
    // with 8-bit keys the kernel of resident keys runs where options name it
    for (prefill, exact) in [(PrefillBackend::Sm90, SelectedKernel::PREFILL), (PrefillBackend::Sm90Resident, RESIDENT)]
    {
        let selector =
            |compute_type| kernels(&KernelTraitsRequest { compute_type, prefill, ..of }, HookClass::None, GROUPED, 132);
        let (of_exact, of_e4m3) = (selector(ComputeType::Exact), selector(ComputeType::E4m3));
        assert!(of_exact.select(&short) == exact && of_exact.mixed.is_some());
        assert!(of_e4m3.select(&short) == SelectedKernel::PREFILL && of_e4m3.mixed.is_none());
    }
}

/// What took less on an H200 at efca0476. Over bf16 prefill of 8 heads was not timed beside decode.
#[test]
fn latent_decode_runs_on_wgmma_but_for_few_rows_and_keys() {
    let kind = |kv, qo, batch, keys| {
        let request = KernelTraitsRequest {
            head_dim_vo: HeadDimVo::SharedWithKeys(512),
            ..KernelTraitsRequest::new(KernelKind::Decode, 576, Dtypes { kv, ..Dtypes::bf16() }, Arch::for_device(9, 0))
        };
        let selector = kernels(&request, HookClass::None, Heads { qo, kv: 1, head_dim: 576 }, 132);
        selector.select(&layout(&vec![1; batch], &vec![keys; batch])).kind
    };
    let (decode, prefill) = (KernelKind::Decode, KernelKind::Prefill);
    assert_eq!([8, 16, 32].map(|heads| kind(Dtype::E4m3, heads, 64, 4096)), [decode, prefill, prefill]);
    assert_eq!([8, 16, 32].map(|heads| kind(Dtype::Bf16, heads, 64, 4096)), [prefill; 3]);
    assert_eq!([Dtype::E4m3, Dtype::Bf16].map(|kv| kind(kv, 16, 1, 8192)), [decode; 2]);
}
