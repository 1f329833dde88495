//! Parameter tensors whose content is replaced, whole or by rows, through the public interface on the CPU.

use attn::Error;
use attn::batch::PageTableBuf;
use attn::expr::{ContentError, TensorContent};
use attn::ops::{Array, TensorRows};
use attn::prelude::*;
use attn::stock::block_sparse::Bsr;
use attn::stock::{BlockSparse, PageList};
use attn_tests::setup::Tensors;

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };
const PAGE: i32 = 4;
const MAX_PAGES: i32 = 6;

/// Page lists of two requests and two KV heads, as pages and counts.
fn lists(step: i32) -> Vec<Vec<Vec<i32>>> {
    let list = |request: i32, head: i32| {
        (0..=MAX_PAGES).filter(|page| (page * 5 + request + head * 2 + step) % 3 == 0).collect()
    };
    (0..2).map(|request| (0..2).map(|head| list(request, head)).collect()).collect()
}

fn run(plan: &Plan) -> Vec<f32> {
    Tensors::new(HEADS, 2, &[50]).run(plan).o
}

#[test]
fn one_plan_with_replaced_lists_equals_a_plan_of_each_list() {
    let engine = Engine::cpu();
    let (stream, mut workspace) = (engine.stream().expect("none"), engine.workspace());
    let batch = Batch::ragged(&[0, 1, 2], &[0, 27, 50]);
    let variant = |list: PageList| compose!(attn::stock::Causal, list);
    let empty = variant(PageList::with_capacity(PAGE, MAX_PAGES, 2, 2).expect("sizes"));
    let attention = engine.attention(&empty, HEADS, Dtypes::f32()).expect("bound");
    let plan = attention.plan(&batch, &mut workspace).expect("planned");
    let options = PlanOptions { capacity: Some(BatchCapacity::decode(2, 100)), ..Default::default() };
    let mut other = attention.clone().plan_with(&batch, &mut workspace, options).expect("planned");
    let mut seen = Vec::new();
    for step in 0..3 {
        let list = PageList::from_lists(PAGE, MAX_PAGES, &lists(step)).expect("they fit");
        attention.set_tensor(&stream, "pages", &TensorContent::host(list.pages.as_slice())).expect("replaced");
        attention
            .set_tensor(&stream, "page_list.count", &TensorContent::host(list.count.as_slice()))
            .expect("replaced");
        let own = engine.attention(&variant(list), HEADS, Dtypes::f32()).expect("bound");
        let want = run(&own.plan(&batch, &mut engine.workspace()).expect("planned"));
        assert_eq!(run(&plan), want, "step {step}");
        other.update(&stream, &batch).expect("the same lengths");
        assert_eq!(run(&other), want, "step {step}: a clone's plan");
        assert!(!seen.contains(&want), "each step attends to other keys");
        seen.push(want);
    }
}

#[test]
fn refused_replacements_say_why() {
    let engine = Engine::cpu();
    let stream = engine.stream().expect("none");
    let attention = |variant: Variant| engine.attention(&variant, HEADS, Dtypes::f32()).expect("bound");
    let lists = attention(PageList::with_capacity(PAGE, MAX_PAGES, 2, 2).expect("sizes").into());
    let error = |attention: &Attention, name: &str, content: &TensorContent<'_>| {
        attention.set_tensor(&stream, name, content).expect_err("refused").to_string()
    };
    let four = TensorContent::host(&[1i32; 4]);
    assert!(error(&lists, "cuont", &four).contains("did you mean `count`"));
    assert!(error(&lists, "max_pages", &four).contains("is not a parameter tensor"));
    assert!(error(&lists, "count", &TensorContent::host(&[1i32; 3])).contains("takes 16 bytes"));
    assert_eq!(error(&lists, "count", &TensorContent::host(&[1f32; 4])), "`count` is of i32; got f32");
    assert!(error(&lists, "count", &TensorContent::host(&[1i32, 7, 0, 0])).contains("must hold"));
    // SAFETY: the CPU refuses it before it is read.
    let elsewhere = unsafe { TensorContent::device::<i32>(256, 4) };
    assert!(error(&lists, "count", &elsewhere).contains("in memory of a CUDA device"));
    lists.set_tensor(&stream, "count", &four).expect("nothing is wrong with these");

    let mask = attn::stock::PrefixLm { prefix: [3, 4].into() };
    let masks = attention(mask.into());
    let fixed = masks.set_tensor(&stream, "prefix", &TensorContent::host(&[1i32, 1])).expect_err("refused");
    assert!(matches!(fixed, Error::Content(ContentError::Fixed { .. })), "{fixed}");

    let matrix = Bsr { block: [1, 4], columns: 4, indptr: &[0, 1], indices: &[2] };
    let sparse = attention(BlockSparse::from_bsr(&[&[matrix], &[matrix]]).expect("sound").into());
    sparse.set_tensor(&stream, "blocks", &TensorContent::host(&[3i32, 1])).expect("lists are not masks");
}

/// A bias of each key, stored by the slot of the key in the pool.
#[derive(Clone, Debug, VariantParams)]
struct SlotBias {
    #[require(page_size >= 1)]
    page_size: i32,
    max_pages: i32,
    slots: i32,
    /// The block table of the batch.
    #[shape(batch, max_pages)]
    pages: Tensor2<i32>,
    #[shape(slots)]
    bias: Tensor1<f32>,
}

#[attention_variant(name = "bias_by_slot")]
impl AttentionVariant for SlotBias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let page = self.pages[[at.batch, at.kv_pos / self.page_size]];
        logit + self.bias[page * self.page_size + at.kv_pos % self.page_size]
    }
}

/// The same by the token of the key.
#[derive(Clone, Debug, VariantParams)]
struct TokenBias {
    #[shape(kv_tokens)]
    bias: Tensor1<f32>,
}

#[attention_variant(name = "bias_by_token")]
impl AttentionVariant for TokenBias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.bias[at.kv_token]
    }
}

#[test]
fn tables_by_slot_stay_while_requests_grow() {
    const PAGES: i32 = 20;
    let engine = Engine::cpu();
    let stream = engine.stream().expect("none");
    let page_of = |request: i32, page: i32| (7 * (10 * request + page) + 3) % PAGES;
    let bias_of = |request: i32, key: i32| ((request * 31 + key * 17) % 13) as f32 / 4.0;
    let variant = SlotBias {
        page_size: PAGE,
        max_pages: 10,
        slots: PAGES * PAGE,
        pages: Tensor2::new(vec![0; 30], [3, 10]).expect("three requests"),
        bias: Tensor1::from(vec![f32::NAN; (PAGES * PAGE) as usize]),
    };
    let attention = engine.attention(&variant.into(), HEADS, Dtypes::f32()).expect("bound");
    let capacity = BatchCapacity::decode(3, 120).in_pages(PAGE as u32, PAGES as u32);
    let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
    let mut workspace = engine.workspace();
    let mut plan: Option<Plan> = None;
    let mut written = [0; 2];
    for step in 0..20 {
        let lens: [i32; 2] = [5 + step, 9 + step];
        let pages =
            |request: i32| (0..(lens[request as usize] + PAGE - 1) / PAGE).map(move |page| page_of(request, page));
        let mut all = (0..2).flat_map(pages);
        let table = PageTableBuf::from_lens(&lens.map(|len| len as u32), PAGE as u32, PAGES as u32, || {
            all.next().expect("a page for each")
        });
        let batch = Batch::paged(&[0, 1, 2], &table.table());
        // the new keys alone are written
        let new: Vec<_> =
            (0..2).flat_map(|r| (written[r as usize]..lens[r as usize]).map(move |key| (r, key))).collect();
        written = lens;
        let slots: Vec<i32> = new.iter().map(|&(r, key)| page_of(r, key / PAGE) * PAGE + key % PAGE).collect();
        let values: Vec<f32> = new.iter().map(|&(r, key)| bias_of(r, key)).collect();
        let rows = TensorRows::at(Array::host(&slots), TensorContent::host(&values));
        attention.set_tensor_rows(&stream, "bias", &rows).expect("in the pool");
        let padded: Vec<i32> = (0..30).map(|i| page_of(i / 10, i % 10)).collect();
        attention.set_tensor(&stream, "pages", &TensorContent::host(&padded)).expect("replaced");
        let plan = match &mut plan {
            Some(plan) => {
                plan.update(&stream, &batch).expect("within");
                plan
            }
            none => none.insert(attention.plan_with(&batch, &mut workspace, options).expect("within")),
        };

        let bias: Vec<f32> = (0..2).flat_map(|r| (0..lens[r as usize]).map(move |key| bias_of(r, key))).collect();
        let flat = engine.attention(&TokenBias { bias: bias.into() }.into(), HEADS, Dtypes::f32()).expect("bound");
        let packed = Tensors::new(HEADS, 2, &[(lens[0] + lens[1]) as usize]);
        let alone = flat.plan(&Batch::ragged(&[0, 1, 2], &[0, lens[0], lens[0] + lens[1]]), &mut engine.workspace());
        let want = packed.run(&alone.expect("exact"));
        let got = packed.in_pages(plan.layout(), [PAGES as usize, PAGE as usize]).run(plan);
        assert_eq!(got, want, "step {step}");
    }
}
