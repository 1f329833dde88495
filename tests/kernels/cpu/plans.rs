//! Plans for variants with ranges, lists and unions.

use attn_core::batch::{Batch, Layout, indptr};
use attn_core::expr::Node;
use attn_core::lang::{AttentionVariant, LogitIndex, QueryTile, RowIndex, Tensor1, Tile, TileClass};
use attn_core::plan::{PlanError, PlanRule, PlanScratch, Schedule, WorkItem, WorkList};
use attn_core::spec::{HeadDimVo, Heads};
use attn_core::tensor::{Kv, Out, TensorMut, TensorRef};
use attn_core::{Variant, VariantParams, attention_variant, cpu};

use proptest::prelude::*;

use super::case::COST;
use super::variants::{Band, Blocks, Near, Nothing, Scattered};

const HEADS: Heads = Heads { qo: 6, kv: 2, head_dim: 16 };
const RULE: PlanRule =
    PlanRule { tile_rows: 16, kv_align: 8, min_span: 8, workers: 1, cost: COST, schedule: Schedule::StreamK };

fn layout(qo: &[u32], kv: &[u32]) -> Layout {
    let (qo, kv) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
    Batch::ragged(&qo, &kv).validate().expect("sound")
}

fn plan(variant: &Variant, layout: &Layout, rule: &PlanRule) -> WorkList {
    let work = WorkList::build_for(variant, layout, HEADS, &(*rule).into()).expect("small");
    assert_eq!(work.check(layout), Ok(()));
    // deterministic, also in the memory of another list
    let mut again = WorkList::build_for(&Blocks.into(), &self::layout(&[9, 2], &[70, 4000]), HEADS, &(*rule).into())
        .expect("small");
    let mut scratch = PlanScratch::default();
    for _ in 0..2 {
        again.rebuild_for(&mut scratch, variant, &[], layout, HEADS, &(*rule).into()).expect("small");
        assert_eq!(again, work);
    }
    work
}

#[test]
fn kv_range_shortens_the_kv_ranges_of_items() {
    let layout = layout(&[200], &[200]);
    let work = plan(&Near { reach: 20 }.into(), &layout, &RULE);
    assert_eq!(work.items.len(), (200 * 3_usize).div_ceil(16));
    for item in &work.items {
        let (first, last) = (item.first_row / 3, (item.first_row + item.rows - 1) / 3);
        assert_eq!(item.kv_begin, (first - 20).max(0) / 8 * 8, "{item:?}");
        assert_eq!(item.kv_end, ((last + 21).min(200) as u32).next_multiple_of(8).min(200) as i32, "{item:?}");
    }
}

#[test]
fn kv_range_may_depend_on_one_head() {
    /// KV head `h` attends to keys from `50 h` on; `kv_range` computes this from the heads of its tile.
    #[derive(Clone, Copy, VariantParams)]
    struct FromHead;
    #[attention_variant(name = "from_head")]
    impl AttentionVariant for FromHead {
        fn logits_mask(&self, at: LogitIndex) -> bool {
            at.kv_pos >= 50 * at.kv_head
        }
        fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
            (50 * tile.kv_head_max, 100 - 50 * tile.kv_head_min + 50)
        }
    }
    // `kv_range` is 0 .. 150 for head 0 and 50 .. 100 for head 1; the plan takes the join, 0 .. 150
    let work = plan(&FromHead.into(), &layout(&[1], &[200]), &RULE);
    assert_eq!((work.items[0].kv_begin, work.items[0].kv_end), (0, 152));
}

#[test]
fn tiles_have_queries_of_one_list_and_keys_of_its_length() {
    let layout = layout(&[8, 0, 1], &[300, 5, 3]);
    for tile_rows in [4, 9, 16] {
        let work = plan(&Blocks.into(), &layout, &PlanRule { tile_rows, ..RULE });
        assert!(work.lists);
        let mut row = [0, 0, 0];
        for item in &work.items {
            assert_eq!(item.first_row, row[item.request as usize]);
            row[item.request as usize] += item.rows;
            let run = item.first_row / 9; // 3 queries of 3 heads
            assert_eq!((item.first_row + item.rows - 1) / 9, run, "{item:?} straddles");
            // the longer list of the two KV heads, in keys; it may exceed the keys of the request
            let blocks = (0..2).map(|kv_head| 5 + (run + kv_head + item.request) % 4).max().expect("two");
            assert_eq!((item.kv_begin, item.kv_end), (0, 4 * blocks));
        }
        assert_eq!(row, [24, 0, 3]);
    }
    let split = plan(&Blocks.into(), &layout, &PlanRule { workers: 100, ..RULE });
    assert!(split.merges.len() == 4 && split.items.iter().all(|item| item.kv_begin % 8 == 0));
}

#[test]
fn key_lists_that_are_too_long_are_refused() {
    #[derive(Clone, Copy, VariantParams)]
    struct Endless;
    #[attention_variant(name = "endless")]
    impl AttentionVariant for Endless {
        fn kv_list_len(&self, _at: RowIndex) -> i32 {
            2_000_000_000
        }
        fn kv_list_block_size(&self) -> i32 {
            2
        }
    }
    let error = WorkList::build_for(&Endless.into(), &layout(&[1], &[4]), HEADS, &RULE.into());
    assert_eq!(error, Err(PlanError::TooMany { what: "virtual keys of one list", value: 4_000_000_000 }));
}

#[test]
fn branches_of_a_union_share_the_merge_of_a_tile() {
    let layout = layout(&[30, 2], &[30, 100]);
    let branches = vec![Band { window: 9 }.into(), Nothing.into(), Near { reach: 40 }.into()];
    for workers in [1, 64] {
        for schedule in [Schedule::StreamK, Schedule::LongestFirst, Schedule::FixedSplit { keys: 24 }] {
            let rule = PlanRule { workers, schedule, ..RULE };
            let work = plan(&Node::union(branches.clone()).into(), &layout, &rule);
            let branches: Vec<_> = work.parts.iter().map(|part| &work.items[part.items.clone()]).collect();
            assert_eq!(branches.iter().map(|branch| branch.len()).sum::<usize>(), work.items.len());
            assert!(branches.len() == 3 && !branches[0].is_empty() && !branches[2].is_empty());
            let mut partials: Vec<_> = work.items.iter().map(|item| item.partial).collect();
            partials.sort_unstable();
            let all = (0..work.partial_rows as i32).step_by(rule.tile_rows as usize);
            assert_eq!(partials, all.collect::<Vec<_>>(), "every item has partial rows of its own");
            assert_eq!(work.merges.len(), 6 + 1, "one for each tile");
            // each branch has its own workers, which run its items
            for branch in work.parts.iter().filter(|_| schedule != Schedule::LongestFirst) {
                let workers = &work.workers[branch.workers.clone()];
                let ends = [workers[0], workers[workers.len() - 1]].map(|item| item as usize);
                assert_eq!((ends, workers.is_sorted()), ([branch.items.start, branch.items.end], true));
                assert!(workers.len() <= rule.workers as usize + 1);
            }
            for merge in &work.merges {
                let of = |item: &&WorkItem| work.states_of(merge).any(|state| state == item.partial);
                let rows = |item: &WorkItem| (item.request, item.first_row, item.rows);
                assert!(work.items.iter().filter(of).all(|i| rows(i) == (merge.request, merge.first_row, merge.rows)));
            }
        }
    }
}

#[test]
fn a_tile_without_visible_keys_in_any_branch_is_written() {
    let union = Node::union(vec![Near { reach: -1 }.into(), Near { reach: -1 }.into()]);
    let work = plan(&union.into(), &layout(&[1], &[0]), &RULE);
    let item = |item: &WorkItem| (item.kv_begin, item.kv_end, item.partial);
    assert_eq!(work.items.iter().map(item).collect::<Vec<_>>(), [(0, 0, 0)]);
    let items: Vec<_> = work.parts.iter().map(|part| part.items.clone()).collect();
    assert_eq!((items, work.merges.len()), (vec![0..1, 1..1], 1));
}

/// Keys of the query's own document.
#[derive(Clone, VariantParams)]
struct Documents {
    #[shape(qo_tokens)]
    #[monotone]
    of_query: Tensor1<i32>,
    #[shape(kv_tokens)]
    #[monotone]
    of_key: Tensor1<i32>,
}

#[attention_variant(name = "test_documents")]
impl AttentionVariant for Documents {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.of_query[at.qo_token] == self.of_key[at.kv_token]
    }
}

/// The first keys, and every n-th key.
#[derive(Clone, Copy, VariantParams)]
struct Comb {
    front: i32,
    #[require(step > 0)]
    step: i32,
}

#[attention_variant(name = "test_comb")]
impl AttentionVariant for Comb {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos < self.front || (at.qo_pos - at.kv_pos).rem_euclid(self.step) == 0
    }
}

/// The masks of the next test.
fn masks(layout: &Layout, number: usize, size: i32) -> Variant {
    let band = |window: i32| Variant::from(Band { window });
    let both = |a: Variant, b: Variant| a.and(b).expect("masks");
    // documents of `size` and a few tokens more, as they stand in the packed tokens
    let document = |token: usize| (token as i32) / (size + 3);
    let documents = Variant::from(Documents {
        of_query: (0..layout.qo_tokens()).map(document).collect(),
        of_key: (0..layout.kv_tokens()).map(document).collect(),
    });
    match number {
        0 => band(i32::MAX),
        1 => band(size),
        2 => documents,
        3 => both(band(i32::MAX), documents),
        4 => both(band(300), Comb { front: size / 8, step: 1 + size / 2 }.into()),
        5 => both(band(i32::MAX), Node::Not(band(size)).into()),
        6 => Node::or(vec![band(size / 3), documents, Nothing.into()]).into(),
        7 => both(band(i32::MAX), Near { reach: size }.into()),
        8 => Node::per_head([0, 1, 0, 0, 1, 1], vec![band(size), both(documents, band(size * 3))]).into(),
        9 => both(band(size * 2), Scattered.into()),
        10 => Variant::full(),
        _ => Nothing.into(),
    }
}

/// The visible blocks of a tile, found by classifying every prefix and every suffix.
fn by_plain_class(variant: &Variant, layout: &Layout, item: &WorkItem, align: u64) -> (u64, u64) {
    let request = item.request as usize;
    let (kv_len, qo_len) = (layout.kv_len(request) as i32, layout.qo_len(request) as i32);
    let group = HEADS.group() as i32;
    let (first, last) = (item.first_row / group, (item.first_row + item.rows - 1) / group);
    let (token, key) = (layout.qo_indptr()[request], layout.kv_indptr()[request]);
    let skips = |from: u64, to: u64| {
        let (from, to) = ((from * align) as i32, (to * align).min(kv_len as u64) as i32);
        (0..HEADS.kv as i32).all(|kv_head| {
            let rows = QueryTile {
                batch: item.request,
                qo_row_min: first,
                qo_row_max: last,
                qo_pos_min: first + kv_len - qo_len,
                qo_pos_max: last + kv_len - qo_len,
                qo_token_min: token + first,
                qo_token_max: token + last,
                qo_head_min: kv_head * group,
                qo_head_max: (kv_head + 1) * group - 1,
                kv_head_min: kv_head,
                kv_head_max: kv_head,
                qo_len,
                kv_len,
            };
            let keys = (key + from, key + to - 1);
            let (kv_token_min, kv_token_max) = keys;
            let tile = Tile { rows, kv_pos_min: from, kv_pos_max: to - 1, kv_token_min, kv_token_max };
            variant.tile_class(tile) == TileClass::Skip
        })
    };
    let blocks = (kv_len as u64).div_ceil(align);
    let begin = (1..=blocks).take_while(|&n| skips(0, n)).last().unwrap_or(0);
    let end = blocks - (1..=blocks - begin).take_while(|&n| skips(blocks - n, blocks)).last().unwrap_or(0);
    (begin, end)
}

/// A batch of some of the requests of another batch.
fn part(layout: &Layout, requests: std::ops::Range<usize>) -> Layout {
    let lens = |len: fn(&Layout, usize) -> usize| requests.clone().map(|r| len(layout, r) as u32).collect::<Vec<_>>();
    self::layout(&lens(Layout::qo_len), &lens(Layout::kv_len))
}

/// Bits of the output and log-sum-exp of some requests of a batch, with the values that they have in the whole batch.
fn attend(variant: &Variant, layout: &Layout, requests: std::ops::Range<usize>, rule: &PlanRule) -> Vec<u32> {
    let number = |i: usize| ((i * 7919 + 13) % 1009) as f32 / 500.0 - 1.0;
    let rows = |indptr: &[i32], heads: u32| {
        let row = (heads * HEADS.head_dim) as usize;
        let ends = [requests.start, requests.end].map(|request| indptr[request] as usize * row);
        (ends[0]..ends[1]).map(number).collect::<Vec<f32>>()
    };
    let (q, k) = (rows(layout.qo_indptr(), HEADS.qo), rows(layout.kv_indptr(), HEADS.kv));
    let v: Vec<f32> = k.iter().map(|x| 1.0 - x * x).collect();
    attend_rows(variant, &part(layout, requests.clone()), rule, [&q, &k, &v])
}

/// The bits of O and LSE of each query, for these queries, keys and values.
fn attend_rows(variant: &Variant, layout: &Layout, rule: &PlanRule, [q, k, v]: [&[f32]; 3]) -> Vec<u32> {
    let work = plan(variant, layout, rule);
    let (qo, kv) = (layout.qo_tokens(), layout.kv_tokens());
    let (qo_shape, kv_shape) = ([qo, 6, 16], [kv, 2, 16]);
    let problem = cpu::Problem {
        variant,
        heads: HEADS,
        head_dim_vo: HeadDimVo::Same,
        sm_scale: 0.25,
        layout,
        work: &work,
        q: TensorRef::host(q, &qo_shape).expect("fits"),
        kv: Kv::ragged(TensorRef::host(k, &kv_shape).expect("fits"), TensorRef::host(v, &kv_shape).expect("fits")),
    };
    let (mut o, mut lse) = (vec![f32::NAN; qo * 96], vec![f32::NAN; qo * 6]);
    let out = TensorMut::host(&mut o, &qo_shape).expect("fits");
    cpu::run(&problem, Out::with_lse(out, TensorMut::host(&mut lse, &[qo, 6]).expect("fits"))).expect("sound");
    o.chunks(96).zip(lse.chunks(6)).flat_map(|(o, lse)| [o, lse].concat()).map(f32::to_bits).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// The masks depend on positions only, so a request has the same mask alone and in any batch.
    #[test]
    fn with_fixed_splits_a_request_gives_the_same_bits_alone_and_in_any_batch(
        lens in proptest::collection::vec((0u32..20, 0u32..300), 1..6),
        single in any::<bool>(),
        number in prop::sample::select(vec![0usize, 1, 4, 5, 7, 10]),
        size in 1i32..120,
        (tile_rows, workers, keys) in (1u32..20, 1u32..9, 1u32..100),
    ) {
        let (qo, kv): (Vec<u32>, Vec<u32>) = lens.into_iter().map(|(qo, kv)| (if single { 1 } else { qo }, kv)).unzip();
        let layout = layout(&qo, &kv);
        let variant = masks(&layout, number, size).bind(&HEADS.dims()).expect("fits");
        let rule = PlanRule { tile_rows, workers, schedule: Schedule::FixedSplit { keys }, ..RULE };
        let all = plan(&variant, &layout, &rule);
        let together = attend(&variant, &layout, 0..layout.batch(), &rule);
        let per_token = 96 + 6;
        for request in 0..layout.batch() {
            let alone = plan(&variant, &part(&layout, request..request + 1), &rule);
            let splits = |work: &WorkList, request: usize| -> Vec<[i32; 4]> {
                let of_it = work.items.iter().filter(|item| item.request as usize == request);
                of_it.map(|item| [item.first_row, item.rows, item.kv_begin, item.kv_end]).collect()
            };
            prop_assert_eq!(splits(&alone, 0), splits(&all, request));
            let bits = attend(&variant, &layout, request..request + 1, &rule);
            let first = layout.qo_indptr()[request] as usize * per_token;
            prop_assert!(bits == together[first..first + layout.qo_len(request) * per_token], "request {}", request);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// A prompt in chunks, down to one token at a time, over the keys that were there at each.
    #[test]
    fn with_fixed_splits_a_query_gives_the_same_bits_in_any_chunk(
        chunks in proptest::collection::vec(prop_oneof![Just(1u32), 1u32..40], 1..9),
        cached in 0u32..200,
        (tile_rows, workers, keys) in (1u32..20, 1u32..9, 1u32..100),
        windowed in any::<bool>(),
    ) {
        let total: u32 = chunks.iter().sum();
        let window = if windowed { 37 } else { i32::MAX };
        let variant = Variant::from(Band { window }).bind(&HEADS.dims()).expect("fits");
        let schedule = Schedule::FixedSplit { keys };
        // ranges of keys begin at blocks of this backend
        let rule = PlanRule { tile_rows, workers, schedule, kv_align: cpu::plan_rule(HEADS).kv_align, ..RULE };
        let whole = attend_chunk(&variant, cached, total, &rule);
        let (mut first, per_token) = (cached, 96 + 6);
        for qo in chunks {
            let bits = attend_chunk(&variant, first, qo, &rule);
            let at = (first - cached) as usize * per_token;
            prop_assert!(bits == whole[at..at + qo as usize * per_token], "{} queries from {}", qo, first);
            first += qo;
        }
    }
}

/// The bits of O and LSE of queries at positions `first..first + qo` of one request, over all keys up to the last.
fn attend_chunk(variant: &Variant, first: u32, qo: u32, rule: &PlanRule) -> Vec<u32> {
    let layout = layout(&[qo], &[first + qo]);
    let value = |i: usize| (i as u32).wrapping_mul(2_654_435_761).wrapping_shr(9) as f32 / 8_388_608.0 - 0.5;
    let elements = |tokens: std::ops::Range<u32>, width: usize, seed: usize| -> Vec<f32> {
        (tokens.start as usize * width..tokens.end as usize * width).map(|i| value(i * 3 + seed)).collect()
    };
    let (q, k) = (elements(first..first + qo, 96, 0), elements(0..first + qo, 32, 1));
    let v = elements(0..first + qo, 32, 2);
    attend_rows(variant, &layout, rule, [&q, &k, &v])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn kv_ranges_have_every_attended_key_and_are_as_tight_as_tile_classes_allow(
        // a few queries, or one of each request as in decode
        lens in prop_oneof![
            proptest::collection::vec((0u32..90, 0u32..500), 1..5),
            proptest::collection::vec((Just(1u32), 0u32..500), 1..12),
        ],
        number in 0usize..12,
        size in 1i32..120,
        (tile_rows, kv_align) in (1u32..50, 1u32..70),
    ) {
        // no table is empty
        let (qo, kv): (Vec<u32>, Vec<u32>) = lens.into_iter().chain([(1, 1)]).unzip();
        let layout = layout(&qo, &kv);
        let variant = masks(&layout, number, size).bind(&HEADS.dims()).expect("fits");
        let work = plan(&variant, &layout, &PlanRule { tile_rows, kv_align, ..RULE });
        for item in &work.items {
            let request = item.request as usize;
            let (begin, end) = by_plain_class(&variant, &layout, item, kv_align.into());
            let keys = |block: u64| (block * u64::from(kv_align)).min(layout.kv_len(request) as u64) as i32;
            let empty = item.kv_begin == item.kv_end;
            let inside = item.kv_begin >= keys(begin) && item.kv_end <= keys(end);
            prop_assert!(empty || inside, "{item:?} in {begin}..{end}");
            let (kv_len, qo_len) = (layout.kv_len(request) as i32, layout.qo_len(request) as i32);
            for row in item.first_row..item.first_row + item.rows {
                for kv_head in 0..2 {
                    let row = RowIndex {
                        batch: item.request,
                        qo_row: row / 3,
                        qo_pos: row / 3 + kv_len - qo_len,
                        qo_token: layout.qo_indptr()[request] + row / 3,
                        qo_head: kv_head * 3 + row % 3,
                        kv_head,
                        qo_len,
                        kv_len,
                    };
                    let mut keep = vec![true; kv_len as usize];
                    let at = LogitIndex { row, kv_pos: 0, kv_token: layout.kv_indptr()[request], kv_slot: 0 };
                    variant.mask_tile(&mut keep, at);
                    let outside = |key: usize| !(item.kv_begin..item.kv_end).contains(&(key as i32));
                    let lost = (0..keep.len()).find(|&key| keep[key] && outside(key));
                    prop_assert_eq!(lost, None, "{:?} {:?}", item, row);
                }
            }
        }
    }
}
