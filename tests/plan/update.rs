//! Plans updated to other batches, and batch invariance, through the public interface on the CPU.

use attn::Error;
use attn::batch::{BatchError, DeviceBatch, DevicePages, I32Slice};
use attn::lang::BindError;
use attn::prelude::*;
use attn_core::plan::{Cost, PlanCapacity, PlanRule, Schedule, WorkList};
use attn_tests::setup::{BatchArrays, Tensors, cpu_attention};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };
/// The capacity of the tensors in queries and keys.
const TOKENS: (usize, usize) = (160, 6000);
/// Values of a token's queries.
const ROW: usize = (HEADS.qo * HEADS.head_dim) as usize;
const PAGE: u32 = 16;
const PAGES: u32 = 400;

/// Queries and keys of each request.
type Lens<'a> = (&'a [u32], &'a [u32]);

fn batch_of((qo, kv): Lens<'_>, paged: bool) -> BatchArrays {
    BatchArrays::new(qo, kv, paged.then_some([PAGE, PAGES]))
}

/// Runs a plan over fixed tensors; without a capacity they have the tokens of its batch. Unwritten rows have the bits
/// of NaN.
fn run(plan: &Plan, paged: bool) -> [Vec<u32>; 2] {
    let layout = plan.layout();
    let tokens = if plan.capacity().is_some() { TOKENS } else { (layout.qo_tokens(), layout.kv_tokens()) };
    let slots = if paged { vec![PAGES as usize, PAGE as usize] } else { vec![tokens.1] };
    let tensors = Tensors::new(HEADS, tokens.0, &slots);
    let [mut o, mut lse] = tensors.run(plan).bits();
    o.resize(TOKENS.0 * ROW, f32::NAN.to_bits());
    lse.resize(TOKENS.0 * HEADS.qo as usize, f32::NAN.to_bits());
    [o, lse]
}

fn attention(variant: &str, options: AttentionOptions) -> Attention {
    cpu_attention(variant, HEADS, options)
}

#[test]
fn an_updated_plan_gives_the_bits_of_a_plan_of_its_own() {
    let decode: [Lens<'_>; 5] = [
        (&[1, 1, 1], &[900, 3, 40]),
        (&[1; 4], &[1, 1700, 64, 65]),
        (&[1, 0, 1, 0], &[2000, 0, 0, 0]),
        (&[], &[]),
        (&[1; 4], &[500; 4]),
    ];
    let prefill: [Lens<'_>; 4] =
        [(&[33, 1], &[33, 1200]), (&[70, 40, 20], &[1500, 40, 2000]), (&[0, 9], &[7, 0]), (&[130], &[3000])];
    for (batches, capacity) in
        [(&decode[..], BatchCapacity::decode(4, 4000)), (&prefill, BatchCapacity::new(3, 150, 5000))]
    {
        for (variant, paged) in
            [("causal", true), ("full", false), ("causal + union(sliding_window(window=70), full)", true)]
        {
            let capacity = if paged { capacity.in_pages(PAGE, PAGES) } else { capacity };
            let attention = attention(variant, AttentionOptions::default());
            let (engine, arrays) = (Engine::cpu(), |lens| batch_of(lens, paged));
            let stream = engine.stream().expect("a token");
            let first = arrays(batches[0]);
            let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
            let plan = attention.plan_with(&first.batch(), &mut engine.workspace(), options);
            let mut plan = plan.expect("within");
            assert_eq!(plan.capacity(), Some(&capacity));
            for &lens in batches.iter().chain(&batches[..1]) {
                let arrays = arrays(lens);
                plan.update(&stream, &arrays.batch()).expect("within");
                let alone = attention.plan(&arrays.batch(), &mut engine.workspace()).expect("sound");
                assert_eq!(plan.layout(), alone.layout());
                assert!(run(&plan, paged) == run(&alone, paged), "{variant}: {lens:?}");
            }
        }
    }
}

#[test]
fn a_device_update_equals_a_host_update() {
    let (engine, stream) = (Engine::cpu(), Engine::cpu().stream().expect("a token"));
    let (qo, kv): Lens<'_> = (&[9, 0, 1, 1], &[100, 0, 33, 900]);
    let lens: Vec<i32> = kv.iter().map(|&len| len as i32).collect();
    let kernels = [None, Some(KernelKind::Mixed)];
    for (paged, kernel) in kernels.into_iter().flat_map(|kernel| [(false, kernel), (true, kernel)]) {
        let attention = attention("causal", AttentionOptions { kernel, ..AttentionOptions::default() });
        let arrays = batch_of((qo, kv), paged);
        let capacity = BatchCapacity::new(4, 20, 2000);
        let capacity = if paged { capacity.in_pages(PAGE, PAGES) } else { capacity };
        let first = batch_of((&[1], &[5]), paged);
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        let mut plan = attention.plan_with(&first.batch(), &mut engine.workspace(), options).expect("within");
        let before = run(&plan, paged);
        // allocated pages without keys
        let spare = arrays.table.as_ref().map(|table| {
            let mut indices = table.indices.clone();
            indices.push(0);
            (table.indptr.iter().enumerate().map(|(i, &end)| end + i32::from(i == 4)).collect::<Vec<_>>(), indices)
        });
        let batch = |lens| {
            let pages = spare.as_ref().map(|(indptr, indices)| DevicePages::Compressed {
                indptr: I32Slice::host(indptr),
                indices: I32Slice::host(indices),
            });
            DeviceBatch {
                qo_indptr: I32Slice::host(&arrays.qo),
                kv_lens: I32Slice::host(lens),
                pages,
                qo_tokens: None,
                levels: &[],
            }
        };
        let error = plan.update_on_device(&stream, &batch(&[1, 0, -3, 9])).expect_err("-3 keys");
        assert!(matches!(error, Error::Batch(BatchError::KvLen { request: 2, kv_len: -3 })), "{error}");
        // SAFETY: the pointer is never read: the CPU backend refuses memory of a device.
        let elsewhere = DeviceBatch { kv_lens: unsafe { I32Slice::device(0x1000, 4) }, ..batch(&lens) };
        let error = plan.update_on_device(&stream, &elsewhere).expect_err("memory of a device");
        assert!(matches!(error, Error::Backend { .. }), "{error}");
        assert!(run(&plan, paged) == before, "the plan is unchanged");
        plan.prepare_device_updates().expect("nothing to do");
        plan.update_on_device(&stream, &batch(&lens)).expect("within");
        plan.device_status(&stream).expect("sound");
        let alone = attention.plan(&arrays.batch(), &mut engine.workspace()).expect("sound");
        assert!(plan.layout() == alone.layout() && run(&plan, paged) == run(&alone, paged));
    }
}

#[test]
fn a_device_update_with_levels_equals_a_host_update() {
    let (engine, stream) = (Engine::cpu(), Engine::cpu().stream().expect("a token"));
    let attention = attention("causal", AttentionOptions::default());
    let (own, prompt) = (batch_of((&[9, 0, 1, 1], &[100, 0, 33, 90]), true), batch_of((&[11], &[640]), true));
    let capacity = BatchCapacity::new(4, 20, 4000).in_pages(PAGE, PAGES);
    let plan_in = |levels| {
        let options = PlanOptions { capacity: Some(capacity.in_levels(levels)), ..Default::default() };
        attention.plan_with(&batch_of((&[1], &[5]), true).batch(), &mut engine.workspace(), options).expect("within")
    };
    let tables = [&prompt, &own].map(|of| of.table.as_ref().expect("pages"));
    let [of_prompt, of_own] = [(&prompt, [640].as_slice()), (&own, &[100, 0, 33, 90])].map(|(of, lens)| {
        let table = of.table.as_ref().expect("pages");
        let (indptr, indices) = (I32Slice::host(&table.indptr), I32Slice::host(&table.indices));
        let pages = DevicePages::Compressed { indptr, indices };
        DeviceBatch::paged(I32Slice::host(&of.qo), I32Slice::host(lens), pages)
    });
    let levels = [of_prompt];
    let batch = of_own.with_levels(&levels);
    let levels = [(&prompt, tables[0]), (&own, tables[1])]
        .map(|(of, table)| CascadeLevel { qo_indptr: &of.qo, kv: CascadeLevelKv::Paged(table.table()) });
    let (mut by_device, mut by_host) = (plan_in(2), plan_in(2));
    by_device.update_on_device(&stream, &batch).expect("within");
    by_host.update(&stream, &Batch::cascade(&own.qo, &levels)).expect("within");
    assert!(by_device.layout() == by_host.layout() && run(&by_device, true) == run(&by_host, true));
    let error = plan_in(1).update_on_device(&stream, &batch).expect_err("no levels");
    assert!(matches!(error, Error::Batch(BatchError::LevelsInCapacity)), "{error}");
}

#[test]
fn padding_writes_nothing() {
    let attention = attention("causal", AttentionOptions::default());
    let bits = |lens| {
        let arrays = batch_of(lens, false);
        let options = PlanOptions { capacity: Some(BatchCapacity::decode(4, 99)), ..Default::default() };
        let plan = attention.plan_with(&arrays.batch(), &mut Engine::cpu().workspace(), options);
        run(&plan.expect("within"), false)
    };
    let [o, lse] = bits((&[1, 1], &[70, 5]));
    let padded = bits((&[1, 1, 0, 0], &[70, 5, 0, 9]));
    let nan = f32::NAN.to_bits();
    assert!(o[..2 * 32].iter().all(|&x| x != nan) && o[2 * 32..].iter().all(|&x| x == nan));
    assert!(lse[2 * 4..].iter().all(|&x| x == nan) && [o, lse] == padded);
}

/// Scales the logits of each request by a number of its own.
#[derive(Clone, Debug, VariantParams)]
struct Sharpness {
    #[shape(batch)]
    by: Tensor1<f32>,
}

#[attention_variant(name = "sharpness_of_updated_requests")]
impl AttentionVariant for Sharpness {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit * self.by[at.batch]
    }
}

#[test]
fn tensors_over_lengths_must_fit_the_new_batch() {
    let engine = Engine::cpu();
    let stream = engine.stream().expect("a token");
    let variant: Variant = Sharpness { by: vec![0.5, 2.0].into() }.into();
    let attention = engine.attention(&variant, HEADS, Dtypes::f32()).expect("bound");
    let arrays = batch_of((&[1, 1], &[5, 9]), false);
    let options = PlanOptions { capacity: Some(BatchCapacity::decode(3, 99)), ..Default::default() };
    let plan = attention.plan_with(&arrays.batch(), &mut engine.workspace(), options);
    let mut plan = plan.expect("two requests");
    let before = run(&plan, false);
    let error = plan.update(&stream, &batch_of((&[1; 3], &[5; 3]), false).batch()).expect_err("three requests");
    assert!(matches!(&error, Error::Bind(e) if matches!(e.root(), BindError::Outgrown { .. })), "{error}");
    assert!(plan.layout().batch() == 2 && run(&plan, false) == before, "the plan is unchanged");
    let other = batch_of((&[1, 1], &[30, 2]), false);
    plan.update(&stream, &other.batch()).expect("two requests");
    let alone = attention.plan(&other.batch(), &mut engine.workspace()).expect("two requests");
    assert!(run(&plan, false) == run(&alone, false));
}

/// Plan rules of every schedule, with the numbers of kernels.
fn rules() -> Vec<PlanRule> {
    let cost = Cost { item: 1000, block: 2000, merge: 100 };
    let rule = PlanRule { tile_rows: 8, kv_align: 64, min_span: 128, workers: 33, cost, schedule: Schedule::StreamK };
    [Schedule::StreamK, Schedule::LongestFirst, Schedule::FixedSplit { keys: 256 }]
        .into_iter()
        .flat_map(|schedule| [PlanRule { schedule, ..rule }, PlanRule { schedule, tile_rows: 128, ..rule }])
        .collect()
}

#[test]
fn the_capacity_holds_the_work_lists_of_every_variant() {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let lens: [Lens<'_>; 4] = [
        (&[1; 7], &[300, 9, 4000, 0, 70, 65, 64]),
        (&[40, 1, 0, 300], &[900, 64, 3, 300]),
        (&[200], &[5000]),
        (&[], &[]),
    ];
    for variant in [
        "full",
        "causal",
        "causal + sliding_window(window=100)",
        "causal + union(sliding_window(window=70), full)",
        "union(sliding_window(window=70), union(chunked(chunk=64), full))",
    ] {
        let variant = Variant::parse(variant).expect("stock");
        for rule in rules() {
            for lens in lens {
                let arrays = batch_of(lens, false);
                let layout = arrays.batch().validate().expect("sound");
                let capacity = BatchCapacity::of(&layout);
                let plan_capacity = PlanCapacity::of(&capacity, &variant, HEADS, &rule.into()).expect("small");
                let work = WorkList::build_for(&variant, &layout, HEADS, &rule.into()).expect("small");
                plan_capacity.check(&layout, &work).unwrap_or_else(|e| panic!("{variant} {rule:?} {lens:?}: {e}"));
            }
        }
    }
}

#[test]
fn a_request_gives_the_same_bits_alone_and_in_any_batch() {
    let (qo, kv): (&[u32], &[u32]) = (&[1, 33, 1, 70, 3], &[5000, 40, 0, 300, 500]);
    // the first request among others, and alone; its tokens are the first of the tensors in both
    let bits = |attention: &Attention, lens: Lens<'_>| {
        let arrays = batch_of(lens, false);
        let plan = attention.plan(&arrays.batch(), &mut Engine::cpu().workspace()).expect("sound");
        let [mut o, mut lse] = run(&plan, false);
        o.truncate(32 * lens.0[0] as usize);
        lse.truncate(4 * lens.0[0] as usize);
        [o, lse]
    };
    for variant in ["causal", "causal + sliding_window(window=800)"] {
        let invariant = AttentionOptions { fixed_split_size: Some(512), ..AttentionOptions::default() };
        let invariant = attention(variant, invariant);
        for first in 0..qo.len() {
            let (mut qo, mut kv) = (qo.to_vec(), kv.to_vec());
            qo.rotate_left(first);
            kv.rotate_left(first);
            let alone = bits(&invariant, (&qo[..1], &kv[..1]));
            assert!(bits(&invariant, (&qo, &kv)) == alone, "{variant}: request {first}");
            let crowd = ([&qo[..1], &[1; 90]].concat(), [&kv[..1], &[10; 90]].concat());
            assert!(bits(&invariant, (&crowd.0, &crowd.1)) == alone, "{variant}: request {first} in a crowd");
        }
    }
}

#[test]
fn a_batch_invariant_request_is_split_independently_of_the_batch() {
    let (qo, kv): (&[u32], &[u32]) = (&[1, 33, 1, 70, 3], &[5000, 40, 0, 300, 500]);
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let variant = Variant::parse("causal + sliding_window(window=800)").expect("stock");
    let spans = |rule: &PlanRule, lens: Lens<'_>, request| {
        let layout = batch_of(lens, false).batch().validate().expect("sound");
        let work = WorkList::build_for(&variant, &layout, HEADS, &(*rule).into()).expect("small");
        let of = work.items.iter().filter(|item| item.request == request);
        let mut spans: Vec<_> = of.map(|i| (i.first_row, i.rows, i.kv_begin, i.kv_end, i.partial >= 0)).collect();
        spans.sort_unstable();
        spans
    };
    let mut others_differ = 0;
    for rule in rules() {
        for (request, (queries, keys)) in qo.iter().zip(kv).enumerate() {
            let alone = spans(&rule, (&[*queries], &[*keys]), 0);
            let same = spans(&rule, (qo, kv), request as i32) == alone;
            assert!(same || !matches!(rule.schedule, Schedule::FixedSplit { .. }), "request {request} under {rule:?}");
            others_differ += usize::from(!same);
        }
    }
    assert!(others_differ > 0, "other schedules split by the content of the batch");
}
