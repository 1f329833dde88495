use attn_core::{
    batch::{Batch, Level, LevelKv, indptr},
    dtype::{Dtype, Dtypes},
    spec::ValueRows,
};
use proptest::prelude::*;

use super::*;
use crate::compile::Arch;

const GROUPED: Heads = Heads { qo: 32, kv: 8, head_dim: 128 };
/// Of an H200 with two CTAs a multiprocessor, per KV head of 8.
const WORKERS: u64 = 33;

fn layout(qo: &[u32], kv: &[u32]) -> Layout {
    let (qo, kv) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
    Batch::ragged(&qo, &kv).validate().expect("sound")
}

/// Costs that are easy to count with: keys of all decode tiles cost 2 us, of a prefill tile 3 us.
fn families() -> Families {
    let costs = |block, merge| Costs { launch: 8000, piece: 1000, block, first: 0, merge, spread: 100, ctas_per_sm: 2 };
    let candidate = |kind, rows, tile_rows, costs| Candidate {
        family: Family { kind, rows },
        tile_rows,
        workers: WORKERS,
        rounds: 1,
        costs,
    };
    let candidates = vec![
        candidate(KernelKind::Decode, 8, 8, costs(2000, 1500)),
        candidate(KernelKind::Decode, 16, 16, costs(2100, 1500)),
        candidate(KernelKind::Prefill, 0, 128, costs(3000, 4000)),
    ];
    Families { group: 4, candidates, mixed_prefill: None, mixed_rows: Vec::new(), most_mixed_rows: 16 }
}

const D8: Family = Family { kind: KernelKind::Decode, rows: 8 };
const D16: Family = Family { kind: KernelKind::Decode, rows: 16 };

/// What `common` requests of one query with `keys` keys run together with another request.
fn with(common: usize, keys: u32, (qo, kv): (u32, u32)) -> Family {
    let mut lens = (vec![1; common], vec![keys; common]);
    lens.0.push(qo);
    lens.1.push(kv);
    families().cheapest(&layout(&lens.0, &lens.1))
}

/// What a batch is predicted to take of one candidate.
fn time(candidate: usize, qo: &[u32], kv: &[u32]) -> u64 {
    let families = families();
    families.candidates[candidate].time(&families.work(&layout(qo, kv))[candidate])
}

#[test]
fn one_tile_a_request_is_decode() {
    let families = families();
    for len in [1, 64, 4096] {
        assert_eq!(families.cheapest(&layout(&[1; 64], &[len; 64])), D8);
        assert_eq!(families.cheapest(&layout(&[2; 64], &[len; 64])), D8, "8 rows");
        assert_eq!(families.cheapest(&layout(&[4; 64], &[len; 64])), D16, "16 rows");
    }
    assert_eq!(families.cheapest(&layout(&[], &[])), D8);
    assert_eq!(families.cheapest(&layout(&[0, 1], &[9, 9])), D8);
}

#[test]
fn a_few_more_queries_do_not_move_a_batch_to_prefill() {
    // 63 requests that decode, and one of five queries: 20 rows are three small tiles, of 66 in all, or two of 65 that cost 5 % more; prefill
    // takes half as long again for each
    assert_eq!(with(63, 4096, (5, 4096)), D8);
    // of 16 queries, 64 rows: eight small tiles, or four
    assert_eq!(with(63, 4096, (16, 4096)), D16);
    // 12 rows are two small tiles, or one
    assert_eq!(with(63, 4096, (3, 4096)), D8);
    assert_eq!(with(2, 4096, (3, 4096)), D16);
}

#[test]
fn where_times_are_about_the_same_the_device_is_kept_least_busy() {
    // of 12 rows, alone: no cut helps, and two small tiles run side by side
    for keys in [1, 70, 128] {
        assert_eq!(with(0, 0, (3, keys)), D16);
    }
    // and where cutting more would only merge more
    assert_eq!(with(0, 0, (4, 131_072)), D16);
    let [small, large] = [0, 1].map(|candidate| time(candidate, &[4], &[128]));
    assert!(small < large, "the small tiles would be done sooner: {small} ns, {large} ns");
}

#[test]
fn more_heads_than_a_device_holds_take_turns() {
    let request = CellRequest {
        kind: KernelKind::Decode,
        head_dim: 128,
        values: ValueRows::Same,
        dtypes: Dtypes::bf16(),
        paged: true,
        group: 1,
        key_hooks: false,
        value_hooks: false,
        arch: Arch::new(8, 0),
        key_lists: false,
        template: attn_core::spec::PrefillTemplate::default(),
    };
    let families = |kv| {
        let heads = Heads { qo: kv, kv, head_dim: 128 };
        Families::new(&request, HookClass::None, heads, 16).expect("supported").candidates[0]
    };
    let ctas = families(1).workers as u32;
    assert_eq!((families(ctas).workers, families(ctas).rounds), (1, 1));
    assert_eq!((families(ctas + 1).workers, families(ctas + 1).rounds), (1, 2));
    let work = Work { tiles: 1, tile_keys: 4096, keys: 4096, longest: 4096 };
    let launch = u64::from(families(1).costs.launch);
    assert_eq!(families(ctas + 1).time(&work) - launch, 2 * (families(ctas).time(&work) - launch));
}

#[test]
fn prompts_are_prefill() {
    // 2,048 queries are 512 tiles of decode, which read 2,048 keys each
    assert_eq!(with(63, 4096, (2048, 2048)), Family::PREFILL);
    assert_eq!(with(0, 0, (2048, 2048)), Family::PREFILL);
    // all of 64 rows: 4 tiles of decode against one of prefill
    assert_eq!(families().cheapest(&layout(&[16; 64], &[4096; 64])), Family::PREFILL);
}

#[test]
fn a_short_prompt_among_long_requests_is_no_reason_to_leave_decode() {
    // 128 queries over their own keys alone: 64 small tiles of two blocks, beside 63 of 512
    assert_eq!(with(63, 32_768, (128, 128)), D8);
    // and over a long context they are
    assert_eq!(with(63, 32_768, (1024, 32_768)), Family::PREFILL);
}

#[test]
fn whole_tiles_of_prefill_leave_workers_idle_where_a_line_is_cut() {
    let time = |requests: usize| time(2, &vec![32; requests], &vec![4096; requests]);
    let tile = 1000 + 64 * 3000;
    assert_eq!(time(33), 8000 + tile);
    assert_eq!(time(34), 8000 + 2 * tile, "a second tile for one worker");
    assert_eq!(time(66), 8000 + 2 * tile);
    // fewer tiles than workers are cut
    assert_eq!(time(11), 8000 + tile / 3 + 4000 + 4 * 100);
}

#[test]
fn a_line_is_cut_anywhere_but_not_into_slivers() {
    let time = |lens: &[u32]| time(0, &vec![1; lens.len()], lens);
    let tile = |keys: u64| 1000 + keys / 64 * 2000;
    assert_eq!(time(&[4096; 33]), 8000 + tile(4096));
    assert_eq!(time(&[4096; 34]), 8000 + 34 * tile(4096) / 33 + if 34 * tile(4096) / 33 < tile(4096) { 1 } else { 0 });
    // one request of 128 keys stays in one piece
    assert_eq!(time(&[128]), 8000 + tile(128));
    assert_eq!(time(&[]), 8000);
}

#[test]
fn every_attention_has_families_and_a_prompt_alone_is_prefill() {
    for (head_dim, kv) in [64, 128, 256].into_iter().flat_map(|dim| [(dim, Dtype::Bf16), (dim, Dtype::E4m3)]) {
        for (arch, multiprocessors) in [(Arch::new(8, 0), 108), (Arch::for_device(9, 0), 132), (Arch::new(12, 0), 188)]
        {
            for hooks in [HookClass::None, HookClass::Logits, HookClass::Rewrites] {
                let rewrites = hooks == HookClass::Rewrites;
                let request = CellRequest {
                    kind: KernelKind::Prefill,
                    head_dim,
                    values: ValueRows::Same,
                    dtypes: Dtypes::bf16().with_kv(kv),
                    paged: true,
                    group: 1,
                    key_hooks: rewrites,
                    value_hooks: false,
                    arch,
                    key_lists: false,
                    template: attn_core::spec::PrefillTemplate::default(),
                };
                let heads = Heads { head_dim, ..GROUPED };
                let families = Families::new(&request, hooks, heads, multiprocessors).expect("supported");
                assert_eq!(families.candidates.len(), if head_dim == 256 { 2 } else { 3 });
                assert_eq!(families.cheapest(&layout(&[1; 64], &[4096; 64])), D8);
                assert_eq!(
                    families.cheapest(&layout(&[4096], &[4096])),
                    Family::PREFILL,
                    "{arch} {head_dim} {hooks:?}"
                );
                // 16 rows are one tile, but for the longest
                let few = families.cheapest(&layout(&[4; 64], &[4096; 64]));
                assert!(head_dim == 256 || few.kind == KernelKind::Decode, "{arch} {head_dim} {hooks:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_chosen_is_possible_and_the_same_whatever_the_order(
        lens in proptest::collection::vec((0u32..70, 0u32..9000), 0..40), shift in 0usize..40,
    ) {
        let families = families();
        let of = |lens: &[(u32, u32)]| {
            let (qo, kv): (Vec<u32>, Vec<u32>) = lens.iter().copied().unzip();
            families.cheapest(&layout(&qo, &kv))
        };
        let mut turned = lens.clone();
        turned.rotate_left(shift % lens.len().max(1));
        prop_assert_eq!(of(&lens), of(&turned));
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
            // what is cut or not moves it by a merge
            prop_assert!(time(candidate, &qo, &kv) <= time(candidate, &qo, &longer) + 8000, "{candidate}");
        }
    }
}

/// With a mixed kernel, under the same costs.
fn with_mixed(qo: &[u32], kv: &[u32]) -> Family {
    let families = Families { mixed_rows: vec![8, 16], ..families() };
    families.cheapest(&layout(qo, kv))
}

#[test]
fn requests_of_few_rows_and_of_many_share_a_launch_where_each_part_is_long() {
    let mixed = |rows| Family { kind: KernelKind::Mixed, rows };
    let (qo, kv) = ([vec![512; 8], vec![1; 64]].concat(), vec![4096; 72]);
    assert_eq!(with_mixed(&qo, &kv), mixed(8));
    let (drafts, kv) = ([vec![512; 8], vec![4; 64]].concat(), vec![4096; 72]);
    assert_eq!(with_mixed(&drafts, &kv), mixed(16), "16 rows of a request that decodes");
    // a long request that decodes is one tile of prefill, which all others wait for
    let kv: Vec<u32> = [8192, 32768].into_iter().chain((0..31).map(|i| 512 + 96 * i)).collect();
    assert_eq!(with_mixed(&[vec![8192], vec![1; 32]].concat(), &kv), mixed(8));
    // all of a kind: nothing to share a launch
    assert_eq!(with_mixed(&[512; 8], &[4096; 8]), Family::PREFILL);
    assert_eq!(with_mixed(&[1; 64], &[4096; 64]), D8);
    // next to nothing beside a long prefill is no reason
    assert_ne!(with_mixed(&[2048, 1], &[2048, 8]).kind, KernelKind::Mixed);
}

#[test]
fn the_decode_tile_of_a_cascade_holds_groups_too() {
    let (qo, own): (Vec<i32>, Vec<i32>) = ((0..=4).collect(), (0..=4).map(|i| 10 * i).collect());
    let rows = |group: u32, ends: &[i32]| {
        let shared: Vec<i32> = (0..ends.len() as i32).map(|i| 64 * i).collect();
        let levels = [
            Level { qo_indptr: ends, kv: LevelKv::Ragged(&shared) },
            Level { qo_indptr: &qo, kv: LevelKv::Ragged(&own) },
        ];
        let layout = Batch::cascade(&qo, &levels).validate().expect("sound");
        Families { group: group.into(), ..families() }.rows_of_few(&layout)
    };
    assert_eq!((rows(1, &[0, 4]), rows(4, &[0, 4]), rows(4, &[0, 2, 4])), (4, 16, 8));
    assert_eq!(rows(8, &[0, 4]), 8, "32 rows are prefill's");
}

#[test]
fn a_mixed_launch_takes_the_longer_part_and_a_share_of_the_shorter() {
    let families = Families { mixed_rows: vec![8, 16], ..families() };
    let (qo, kv) = ([vec![512; 8], vec![1; 64]].concat(), vec![4096; 72]);
    let Beside { time, prefill: of_prefill, rows } = families.mixed(&layout(&qo, &kv)).expect("both kinds of requests");
    let alone = |candidate: usize, qo: &[u32], kv: &[u32]| time_of(&families, candidate, qo, kv) - 8000;
    let (decode, prefill) = (alone(0, &[1; 64], &[4096; 64]), alone(2, &[512; 8], &[4096; 8]));
    assert_eq!((time, rows), (8000 + decode.max(prefill) + decode.min(prefill) / APART[1] * APART[0], 8));
    assert_eq!(of_prefill, prefill);
}

fn time_of(families: &Families, candidate: usize, qo: &[u32], kv: &[u32]) -> u64 {
    families.candidates[candidate].time(&families.work(&layout(qo, kv))[candidate])
}
