//! `benches/cases/catalogue.jsonl`: what GPUs are to run passes on the CPU backend, long cases are cut and merged on a GPU, and hooks of
//! every kind meet that. What is in the file is what entries make of it (`catalogue_docs.rs`).

extern crate attn_core as attn;

use std::collections::BTreeSet;

use attn::Variant;
use attn::expr::Node;
use attn::lang::{Hook, Normalizer};
use attn::plan::WorkList;
use attn_tests::catalogue::kernels::cells;
use attn_tests::catalogue::{self, cases};
use facade::Engine;
use facade::testing::{Case, Inputs, LayoutKind, Order, case_variant, check};

/// Tests run at the same time: each takes a part of the cases.
const SHARDS: usize = 4;

fn committed() -> Vec<Case> {
    catalogue::register();
    Case::parse_lines(include_str!("../../benches/cases/catalogue.jsonl")).expect("a committed case file")
}

fn long() -> Vec<Case> {
    catalogue::register();
    cases::long(&catalogue::entries())
}

#[test]
fn first_quarter_passes() {
    passes(0);
}

#[test]
fn second_quarter_passes() {
    passes(1);
}

#[test]
fn third_quarter_passes() {
    passes(2);
}

#[test]
fn last_quarter_passes() {
    passes(3);
}

fn passes(shard: usize) {
    let engine = Engine::cpu();
    for case in committed().iter().skip(shard).step_by(SHARDS) {
        let result = check(case, &engine).unwrap_or_else(|error| panic!("{}: {error}", case.title()));
        assert!(result.passed, "{}: {}", case.title(), result.why());
        // what stores is known by the records, and stores something
        let stores = case.title().starts_with("row 42 ");
        assert_eq!(result.stored.is_some_and(|stored| stored.elements > 0), stores, "{}", case.title());
    }
}

/// CTAs that an H200 (132 SMs) holds of a kernel at least, and more than of any.
const RESIDENT_CTAS: [u32; 2] = [132, 132 * 16];

/// The work of a case on an H200: of kernels that so many CTAs are there for at a time. And the number of arms.
fn planned(case: &Case, resident_ctas: u32) -> (WorkList, usize) {
    let variant: Variant = case_variant(case).expect("an entry").bind(&case.dims()).expect("it fits");
    let inputs = Inputs::new(case, false).expect("a case of ours");
    let layout = inputs.batch().validate().expect("a batch of ours");
    let cells = cells(case, &variant);
    let step = cells.iter().map(|(_, cell)| cell.step_keys()).max().expect("an arm");
    let rule = cells[0].1.plan_rule(step, resident_ctas, case.kv_heads);
    (WorkList::build_for(&variant, &layout, case.heads(), &rule).expect("it can be planned"), cells.len())
}

#[test]
fn long_cases_are_cut_and_merged() {
    for case in long() {
        for resident_ctas in RESIDENT_CTAS {
            let (work, arms) = planned(&case, resident_ctas);
            // arms of a union are merged anyway
            let most = work.merges.iter().map(|merge| merge.count as usize).max().unwrap_or(0);
            assert!(most > arms, "{} on {resident_ctas} CTAs: {most} states to merge, {arms} arms", case.title());
        }
    }
}

/// What hooks that run in a merge, after it, or on either side of it have met, in words.
fn met(case: &Case) -> Vec<String> {
    let variant = case_variant(case).expect("an entry");
    let mut met: Vec<String> =
        Hook::ALL.into_iter().filter(|&hook| variant.has(hook)).map(|hook| hook.method().to_owned()).collect();
    met.extend(variant.nodes().iter().map(|node| match node {
        Node::Part(_) => "part".to_owned(),
        Node::Or(_) => "or".to_owned(),
        Node::Not(_) => "not".to_owned(),
        Node::Remap { .. } => "remap".to_owned(),
        Node::PerHead(_) => "per_head".to_owned(),
        Node::Union(_) => "union".to_owned(),
        other => format!("{other:?}"),
    }));
    met.push(match variant.normalizer() {
        Normalizer::Plain { divide } => format!("Plain, divide {divide}"),
        other => format!("{other:?}"),
    });
    met.extend(variant.parts().filter(|part| part.desc().stores).map(|_| "OutTensor".to_owned()));
    met
}

#[test]
fn every_kind_of_hook_is_merged_in_both_kernels() {
    let cases = long();
    for kernel in ["prefill", "decode"] {
        let of = || cases.iter().filter(|case| case.kernel == kernel);
        let all: BTreeSet<String> = of().flat_map(met).collect();
        let missing: Vec<&str> = [
            "logits_transform",
            "logits_mask",
            "query_transform",
            "key_transform",
            "value_transform",
            "weight",
            "denominator",
            "sink_logit",
            "output_transform",
            "kv_range",
            "kv_list_len",
            "or",
            "not",
            "remap",
            "per_head",
            "union",
            "MaxScaled",
            "Plain, divide false",
            "OutTensor",
        ]
        .into_iter()
        .filter(|what| !all.contains(*what))
        .collect();
        assert!(missing.is_empty(), "no long case of {kernel} has {missing:?}, but {all:?}");

        let cells: BTreeSet<_> = of().map(|case| (case.head_dim, case.dtype.clone(), case.graph)).collect();
        assert!(cells.len() >= 10, "{kernel}: {cells:?}");
        for dim in [64, 128, 256] {
            assert!(of().any(|case| case.head_dim == dim && case.graph), "{kernel} with head dim {dim}");
        }
        let hnd = |case: &Case| case.kv_layout == LayoutKind::Paged && case.page_order == Order::Hnd;
        assert!(of().filter(|case| hnd(case)).count() >= 10, "{kernel} of pages with heads outside");
    }
}

/// What a whole check of the file costs.
#[test]
fn references_are_affordable() {
    let dearest = committed().iter().map(Case::check_cost).max();
    assert!(dearest < Some(1_500_000_000), "{dearest:?}");
}
