//! Parameter tensors whose content is replaced, through the public interface on the CPU.

extern crate facade as attn;

use attn::{
    Error,
    expr::{ContentError, TensorContent},
    prelude::*,
    stock::{BlockSparse, PageList, block_sparse::Bsr},
};
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
