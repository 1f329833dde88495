//! The GPU cases of the catalogue pass on the CPU backend. The long cases are split and merged on a GPU, and have hooks
//! of every kind.

use std::collections::BTreeSet;

use attn::Engine;
use attn_core::Variant;
use attn_core::batch::{Batch, indptr};
use attn_core::expr::Node;
use attn_core::lang::{Hook, Normalizer};
use attn_core::plan::WorkList;
use attn_kernels::cost::{CostTable, HookClass};
use attn_kernels::plan_rules::plan_rule;
use attn_testing::{Case, LayoutKind, Order, case_variant, check};
use attn_tests::catalogue;
use attn_tests::catalogue::kernels::kernel_traits;

/// The number of tests that share the cases and run in parallel.
const SHARDS: usize = 3;

fn all_cases() -> Vec<Case> {
    catalogue::register();
    catalogue::gpu_cases::all(&catalogue::entries())
}

/// The cases whose title says that their keys are split and merged.
fn long() -> Vec<Case> {
    all_cases().into_iter().filter(|case| case.title().ends_with("of long keys")).collect()
}

#[test]
fn first_third_passes() {
    passes(0);
}

#[test]
fn second_third_passes() {
    passes(1);
}

#[test]
fn last_third_passes() {
    passes(2);
}

fn passes(shard: usize) {
    let engine = Engine::cpu();
    for case in all_cases().iter().skip(shard).step_by(SHARDS) {
        let result = check(case, &engine).unwrap_or_else(|error| panic!("{}: {error}", case.title()));
        assert!(result.passed, "{}: {}", case.title(), result.why());
        // only row 42 has output tensors, and it stores something
        let stores = case.title().starts_with("row 42 ");
        assert_eq!(result.stored.is_some_and(|stored| stored.elements > 0), stores, "{}", case.title());
    }
}

/// Bounds on the resident CTAs of a kernel on an H200, which has 132 SMs.
const RESIDENT_CTAS: [u32; 2] = [132, 132 * 16];

/// The work list of a case on an H200 with this number of resident CTAs.
fn planned(case: &Case, variant: &Variant, resident_ctas: u32) -> WorkList {
    let [qo, kv] = [&case.qo_lens, &case.kv_lens].map(|lens| indptr(&lens.to_vec()).expect("a batch of ours"));
    // the plan does not depend on the KV layout
    let layout = Batch::ragged(&qo, &kv).validate().expect("a batch of ours");
    let traits = kernel_traits(case, variant);
    let step = traits.iter().map(|(_, traits)| traits.step_keys()).max().expect("a branch");
    let (costs, hooks) = (CostTable::default(), HookClass::of(variant));
    let rule = plan_rule(&traits[0].1, &costs, hooks, step, resident_ctas, case.kv_heads);
    WorkList::build_for(variant, &layout, case.heads(), &rule.into()).expect("it can be planned")
}

#[test]
fn long_cases_are_split_and_merged() {
    let cases = long();
    assert!(cases.len() >= 100, "{}", cases.len());
    for case in cases {
        let variant = case_variant(&case).expect("an entry").bind(&case.dims()).expect("it fits");
        for resident_ctas in RESIDENT_CTAS {
            let work = planned(&case, &variant, resident_ctas);
            // the branches of a union are always merged
            let partials = work.merges.iter().map(|merge| merge.count).max().unwrap_or(0) as usize;
            let (branches, title) = (work.branches(), case.title());
            assert!(partials > branches, "{title}, {resident_ctas} CTAs: {partials} partials, {branches} branches");
        }
    }
}

/// The names of a case's hooks, combinators and normaliser.
fn features(case: &Case) -> Vec<String> {
    let variant = case_variant(case).expect("an entry");
    let mut features: Vec<String> =
        Hook::ALL.into_iter().filter(|&hook| variant.has(hook)).map(|hook| hook.method().to_owned()).collect();
    features.extend(variant.nodes().iter().map(|node| match node {
        Node::Part(_) => "part".to_owned(),
        Node::Or(_) => "or".to_owned(),
        Node::Not(_) => "not".to_owned(),
        Node::Remap { .. } => "remap".to_owned(),
        Node::PerHead(_) => "per_head".to_owned(),
        Node::Union(_) => "union".to_owned(),
        other => format!("{other:?}"),
    }));
    features.push(match variant.normalizer() {
        Normalizer::Plain { divide } => format!("Plain, divide {divide}"),
        other => format!("{other:?}"),
    });
    features.extend(variant.parts().filter(|part| part.desc().stores).map(|_| "OutTensor".to_owned()));
    features
}

#[test]
fn every_kind_of_hook_is_merged_in_both_kernels() {
    let cases = long();
    for kernel in ["prefill", "decode"] {
        let of = || cases.iter().filter(|case| case.kernel == kernel);
        let all: BTreeSet<String> = of().flat_map(features).collect();
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

        let shapes: BTreeSet<_> = of().map(|case| (case.head_dim, case.dtype.clone(), case.graph)).collect();
        assert!(shapes.len() >= 10, "{kernel}: {shapes:?}");
        for dim in [64, 128, 256] {
            assert!(of().any(|case| case.head_dim == dim && case.graph), "{kernel} with head dim {dim}");
        }
        let hnd = |case: &Case| case.kv_layout == LayoutKind::Paged && case.page_order == Order::Hnd;
        assert!(of().filter(|case| hnd(case)).count() >= 10, "{kernel} of pages with heads outside");
    }
}

/// The reference of each case is cheap enough to compute.
#[test]
fn reference_costs_are_bounded() {
    let highest = all_cases().iter().map(Case::check_cost).max();
    assert!(highest < Some(1_500_000_000), "{highest:?}");
}
