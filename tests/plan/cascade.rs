//! Cascades and block tables, valid and invalid, through the public interface on the CPU.

use attn::Error;
use attn::batch::{BatchError, PageTableBuf, indptr, words};
use attn::prelude::*;
use attn_tests::setup::{Tensors, Written};

const HEADS: Heads = Heads { qo: 6, kv: 2, head_dim: 8 };
const PAGE: u32 = 4;
const PAGES: u32 = 200;

fn attention(expr: &str) -> (Engine, Attention) {
    let engine = Engine::cpu();
    let variant = Variant::parse(expr).expect(expr);
    let attention = engine.attention(&variant, HEADS, Dtypes::f32()).expect(expr);
    (engine, attention)
}

/// Output and log-sum-exp of a batch of `tokens` queries over a fixed pool.
fn run(attention: &Attention, engine: &Engine, batch: &Batch<'_>, tokens: usize) -> Result<Written, Error> {
    run_plan(&attention.plan(batch, &mut engine.workspace())?, tokens)
}

fn run_plan(plan: &Plan, tokens: usize) -> Result<Written, Error> {
    let tensors = Tensors::new(HEADS, tokens, &[PAGES as usize, PAGE as usize]);
    tensors.run_with(plan, KvScales::default(), RunOptions::default())
}

fn close(one: &Written, two: &Written) -> bool {
    let near = |(x, y): (&f32, &f32)| (x - y).abs() <= 2e-5 * (1.0 + x.abs()) || x == y;
    one.o.iter().zip(&two.o).all(near) && one.lse.iter().zip(&two.lse).all(near)
}

/// A table of consecutive pages from `first` on.
fn table(lens: &[u32], first: i32) -> PageTableBuf {
    let mut next = first..;
    PageTableBuf::from_lens(lens, PAGE, PAGES, || next.next().unwrap_or(0))
}

#[test]
fn a_cascade_is_its_flat_batch_under_any_variant() {
    let qo = [0, 1, 4, 4, 5, 6, 7, 8, 9, 10];
    let groups = [0, 5, 10];
    let (root, middle, own) = (table(&[320], 100), table(&[24, 0], 50), table(&[9, 3, 0, 14, 1, 0, 2, 30, 5], 70));
    let level = |qo_indptr, table| CascadeLevel { qo_indptr, kv: CascadeLevelKv::Paged(table) };
    let levels = [level(&[0, 10], root.table()), level(&groups, middle.table()), level(&qo, own.table())];
    let cascade = Batch::cascade(&qo, &levels);
    let layout = cascade.validate().expect("sound");
    let flat = layout.flattened().expect("full pages");
    let pages = flat.pages().expect("paged");
    let lens: Vec<i32> = flat.kv_indptr().windows(2).map(|ends| ends[1] - ends[0]).collect();
    let last: Vec<i32> = lens.iter().map(|len| (len - 1) % PAGE as i32 + 1).collect();
    let (indptr, indices) = (pages.indptr(), pages.indices());
    let csr = PageTable { indptr, indices, last_page_len: &last, page_size: PAGE, num_pages: PAGES };
    let max_pages = 120;
    let mut padded = vec![u32::MAX; lens.len() * max_pages];
    for (request, ends) in indptr.windows(2).enumerate() {
        let of_request = indices[ends[0] as usize..ends[1] as usize].iter().map(|&page| page as u32);
        padded[request * max_pages..].iter_mut().zip(of_request).for_each(|(to, page)| *to = page);
    }
    let blocks = BlockTable { pages: words(&padded), max_pages, kv_lens: &lens, page_size: PAGE, num_pages: PAGES };
    for expr in ["full", "causal + soft_cap(cap=20)", "sliding_window(window=40)", "causal + rope", "causal + alibi"] {
        let (engine, attention) = attention(expr);
        let run = |batch: &Batch<'_>| run(&attention, &engine, batch, 10).expect(expr);
        let want = run(&Batch::paged(&qo, &csr));
        assert_eq!(run(&Batch::block_table(&qo, &blocks)), want, "{expr}: to the bit");
        let plan = attention.plan(&cascade, &mut engine.workspace()).expect(expr);
        assert!(plan.layout().has_levels(), "{expr}: a prefix of 320 keys pays");
        assert!(close(&run_plan(&plan, 10).expect(expr), &want), "{expr}");
        // without a sink, partial rows are final
        let capacity = BatchCapacity::of(&flat).in_pages(PAGE, PAGES);
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        let mut plan = attention.plan_with(&cascade, &mut engine.workspace(), options).expect(expr);
        assert!(!plan.layout().has_levels(), "{expr}: a capacity without levels");
        assert_eq!(run_plan(&plan, 10).expect(expr), want, "{expr}");
        plan.update(&engine.stream().expect("the CPU"), &cascade).expect(expr);
        assert_eq!(run_plan(&plan, 10).expect(expr), want, "{expr}");
    }
    // a union shares no keys and runs flattened
    let (engine, attention) = attention("union(sliding_window(window=9), causal)");
    let plan = attention.plan(&cascade, &mut engine.workspace()).expect("flat");
    assert!(!plan.layout().has_levels());
    assert!(close(
        &run_plan(&plan, 10).expect("runs"),
        &run(&attention, &engine, &Batch::paged(&qo, &csr), 10).expect("runs")
    ));
}

#[test]
fn levels_run_where_pages_cannot_be_flattened() {
    // a prefix that ends within a page
    let qo = [0, 1, 2];
    let (root, own) = (table(&[9], 0), table(&[5, 2], 10));
    let levels = [
        CascadeLevel { qo_indptr: &[0, 2], kv: CascadeLevelKv::Paged(root.table()) },
        CascadeLevel { qo_indptr: &qo, kv: CascadeLevelKv::Paged(own.table()) },
    ];
    let cascade = Batch::cascade(&qo, &levels);
    for expr in ["full", "union(sliding_window(window=3), causal)"] {
        let (engine, attention) = attention(expr);
        let plan = attention.plan(&cascade, &mut engine.workspace()).expect(expr);
        assert!(plan.layout().has_levels());
        let Written { o, lse } = run_plan(&plan, 2).expect(expr);
        assert!(o.iter().chain(&lse).all(|x| x.is_finite()), "{expr}");
        let capacity = BatchCapacity::decode(2, 100).in_pages(PAGE, PAGES);
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        let error = attention.plan_with(&cascade, &mut engine.workspace(), options).expect_err("levels");
        assert!(matches!(error, Error::Batch(BatchError::LevelsInCapacity)), "{error}");
    }
}

/// Requests behind a shared prefix and the prefixes of their groups.
struct Shared {
    qo: Vec<i32>,
    all: [i32; 2],
    groups: Vec<i32>,
    tables: [PageTableBuf; 3],
}

impl Shared {
    /// `groups` are prefix sums of queries; `keys` are of the prefix, of each group, and of each request.
    fn new(qo: &[u32], groups: &[i32], [prefix, middle, own]: [&[u32]; 3]) -> Self {
        let tables = [table(prefix, 100), table(middle, 0), table(own, 50)];
        let (qo, all) = (indptr(qo).expect("short"), [0, qo.iter().sum::<u32>() as i32]);
        Shared { qo, all, groups: groups.to_vec(), tables }
    }

    fn levels(&self) -> [CascadeLevel<'_>; 3] {
        let [prefix, middle, own] = self.tables.each_ref().map(|table| CascadeLevelKv::Paged(table.table()));
        [(&self.all[..], prefix), (&self.groups, middle), (&self.qo, own)]
            .map(|(qo_indptr, kv)| CascadeLevel { qo_indptr, kv })
    }
}

#[test]
fn a_plan_with_a_capacity_of_levels_takes_any_cascade_within_it() {
    let first = Shared::new(&[1; 6], &[0, 3, 6], [&[320], &[24, 0], &[9, 3, 0, 14, 1, 7]]);
    // pages are partly filled, one request has no queries, one has several
    let second = Shared::new(&[1, 3, 0, 1, 2], &[0, 4, 7], [&[333], &[5, 9], &[4, 1, 3, 0, 2]]);
    let short = Shared::new(&[1, 1], &[0, 2], [&[4], &[0], &[9, 30]]);
    let (levels, others, few) = (first.levels(), second.levels(), short.levels());
    let (outer_and_own, no_requests) = ([levels[0], levels[2]], table(&[], 0));
    let flat = Batch::paged(&second.qo, &second.tables[2].table());
    let batches = [
        (Batch::cascade(&first.qo, &levels), Some(true)),
        (Batch::cascade(&second.qo, &others), Some(true)),
        (flat, Some(false)),
        // a prefix of one page does not pay for a level; two levels are enough
        (Batch::cascade(&short.qo, &few), Some(false)),
        (Batch::cascade(&first.qo, &levels[..2]), Some(true)),
        (Batch::cascade(&first.qo, &outer_and_own), None),
        (Batch::paged(&[0], &no_requests.table()), Some(false)),
    ];
    let capacity = BatchCapacity { qo_len: 3, ..BatchCapacity::new(6, 8, 3000) }.in_pages(PAGE, PAGES).in_levels(3);
    for expr in ["full", "causal + alibi", "sliding_window(window=40)", "union(sliding_window(window=9), causal)"] {
        let (engine, attention) = attention(expr);
        let (stream, mut workspace) = (engine.stream().expect("the CPU"), engine.workspace());
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        let mut plan = attention.plan_with(&batches[2].0, &mut workspace, options).expect(expr);
        for (number, (batch, has_levels)) in batches.iter().enumerate() {
            let own = attention.plan(batch, &mut engine.workspace()).expect(expr);
            plan.update(&stream, batch).expect(expr);
            assert_eq!(plan.layout(), own.layout(), "{expr}: batch {number}");
            let shares = !expr.starts_with("union");
            assert!(
                has_levels.is_none_or(|has| has == plan.layout().has_levels() || !shares),
                "{expr}: batch {number}"
            );
            let tokens = own.layout().qo_tokens();
            let want = run_plan(&own, tokens).expect(expr);
            assert_eq!(run_plan(&plan, tokens).expect(expr), want, "{expr}: batch {number}, to the bit");
        }

        plan.update(&stream, &batches[0].0).expect(expr);
        let before = plan.layout().clone();
        let mut refused = |batch: &Batch<'_>| match plan.update(&stream, batch) {
            Err(Error::Batch(error)) => error,
            other => panic!("{expr}: {other:?}"),
        };
        let four = [levels[0], levels[1], levels[2], levels[2]];
        let past = |what, count, capacity| BatchError::Capacity { what, count, capacity };
        assert_eq!(refused(&Batch::cascade(&first.qo, &four)), past("levels", 4, 3));
        let long = Shared::new(&[1, 4], &[0, 5], [&[320], &[0], &[9, 30]]);
        assert_eq!(refused(&Batch::cascade(&long.qo, &long.levels())), past("queries in one request", 4, 3));
        assert_eq!(plan.layout(), &before, "the plan is unchanged");
        let without = PlanOptions { capacity: Some(capacity.in_levels(1)), ..Default::default() };
        let error = attention.plan_with(&batches[1].0, &mut workspace, without).expect_err("pages are not full");
        assert!(error.to_string().contains("in_levels"), "{error}");
    }
}

#[test]
fn invalid_levels_and_tables_are_refused() {
    let (engine, attention) = attention("causal");
    let refused = |batch: &Batch<'_>| match attention.plan(batch, &mut engine.workspace()) {
        Err(Error::Batch(error)) => error,
        other => panic!("{other:?}"),
    };
    let cut = [CascadeLevel { qo_indptr: &[0, 1, 3], kv: CascadeLevelKv::Ragged(&[0, 1, 2]) }];
    let error = refused(&Batch::cascade(&[0, 2, 3], &cut));
    assert!(matches!(error, BatchError::CascadeLevel { level: 0, .. }), "{error}");
    let pages = [0, u32::MAX];
    let table = BlockTable { pages: words(&pages), max_pages: 2, kv_lens: &[5], page_size: PAGE, num_pages: PAGES };
    let error = refused(&Batch::block_table(&[0, 1], &table));
    assert!(matches!(error, BatchError::BlockTablePage { request: 0, index: 1, page: -1, .. }), "{error}");
}
