//! The serving grid: its size, and which factors meet.

use std::collections::{HashMap, HashSet};

use super::*;

/// What distinguishes kernels: the parts of the variant, the kernel and its tile, types, head dim, layout.
fn unit(case: &Case) -> String {
    let mut depth = 0;
    let numbers = |c: &char| {
        depth += i32::from(*c == '[') - i32::from(*c == ']');
        depth == 0 && !c.is_ascii_digit() && !"].- ".contains(*c)
    };
    let variant: String = case.variant.chars().filter(numbers).collect();
    let rows = case.qo_lens.to_vec().into_iter().max().unwrap_or(1) * (case.qo_heads / case.kv_heads);
    let tile = if case.kernel == "decode" && rows > FEW_ROWS && case.head_dim < 256 { 16 } else { 8 };
    let (paged, shared) = (case.kv_layout.paged(), case.kv_layout.levels());
    format!("{variant} {} {tile} {} {:?} {} {paged} {shared}", case.kernel, case.dtype, case.kv_dtype, case.head_dim)
}

#[test]
fn the_grid_has_its_stated_size() {
    let cases = serving();
    let units: HashSet<String> = cases.iter().map(unit).collect();
    let cost: u64 = cases.iter().map(Case::check_cost).sum();
    assert!(cases.len() >= 2000, "{}", cases.len());
    assert!(units.len() <= 920, "{} kernels", units.len());
    assert!(cost <= 250_000_000_000, "{cost:e} operations of the reference");
    let dear = cases.iter().max_by_key(|case| case.check_cost()).expect("some");
    assert!(dear.check_cost() <= 800_000_000, "{}: {:e}", dear.title(), dear.check_cost());
    let names: HashSet<_> = cases.iter().map(Case::title).collect();
    assert_eq!(names.len(), cases.len());
    for case in &cases {
        let line = serde_json::to_string(case).expect("JSON");
        assert_eq!(&Case::parse_lines(&line).expect("a case")[0], case);
        assert!(case.qo_heads.is_multiple_of(case.kv_heads), "{}", case.title());
    }
}

#[test]
fn every_pair_of_a_small_factor_meets() {
    let cases = serving();
    let meet = |what: &str, of: &dyn Fn(&Case) -> bool| assert!(cases.iter().any(of), "no {what}");
    for (kernel, layout) in [
        ("prefill", LayoutKind::Ragged),
        ("prefill", LayoutKind::Paged),
        ("prefill", LayoutKind::BlockTable),
        ("decode", LayoutKind::Ragged),
        ("decode", LayoutKind::Paged),
        ("decode", LayoutKind::BlockTable),
        ("mixed", LayoutKind::Ragged),
        ("mixed", LayoutKind::Paged),
        ("mixed", LayoutKind::BlockTable),
        ("mixed", LayoutKind::Cascade),
        ("mixed", LayoutKind::RaggedCascade),
    ] {
        let here = |case: &Case| case.kernel == kernel && case.kv_layout == layout;
        for graph in [false, true] {
            meet(&format!("{kernel} {layout:?} graph {graph}"), &|c| here(c) && c.graph == graph);
        }
        for dim in HEAD_DIMS {
            for (dtype, kv) in TYPES {
                let of = |c: &Case| here(c) && c.head_dim == dim && c.dtype == dtype && c.kv_dtype.as_deref() == kv;
                meet(&format!("{kernel} {layout:?} {dim} {dtype} {kv:?}"), &of);
            }
        }
        for group in GROUPS {
            meet(&format!("{kernel} {layout:?} group {group}"), &|c| here(c) && c.qo_heads / c.kv_heads == group);
        }
        for (order, pool) in ORDERS.into_iter().flat_map(|order| POOLS[..3].iter().map(move |&pool| (order, pool))) {
            let of = |c: &Case| here(c) && c.page_order == order && c.pool == pool;
            meet(&format!("{kernel} {layout:?} {order:?} {pool:?}"), &of);
        }
        for page_size in PAGE_SIZES.into_iter().filter(|_| layout.paged()) {
            meet(&format!("{kernel} {layout:?} pages of {page_size}"), &|c| here(c) && c.page_size == page_size);
        }
    }
    meet("packed", &|c| c.pool == Pool::Packed);
    meet("levels with larger pages", &|c| c.levels.iter().any(|level| level.page_size == Some(4 * c.page_size)));
}

#[test]
fn every_stock_variant_is_in_every_slot_that_it_can_be_in() {
    let cases = covering(1, |_, _| true);
    let mut slots: HashMap<&str, HashSet<(String, bool, bool)>> = HashMap::new();
    for desc in attn::stock::variants() {
        let name = desc.name;
        // a whole word: `sink` is a parameter of `streaming`, too
        let has = |text: &str| {
            text.match_indices(name).any(|(at, _)| {
                let before = text[..at].chars().next_back();
                let after = text[at + name.len()..].chars().next();
                !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
                    && !after.is_some_and(|c| c.is_alphanumeric() || "_=".contains(c))
            })
        };
        let of = cases.iter().filter(|case| has(&case.variant));
        slots
            .entry(name)
            .or_default()
            .extend(of.map(|c| (c.kernel.clone(), c.kv_layout.paged(), c.kv_layout.levels())));
    }
    for (name, slots) in slots {
        let list = name.ends_with("_list") || name.starts_with("block_sparse");
        let wanted = if list { 4 } else { 7 };
        assert!(slots.len() >= wanted, "{name} is in {} slots alone; `ROWS` has to name it: {slots:?}", slots.len());
    }
}

/// A sample of cases on the CPU, which has one kernel: they are valid, and the reference and the CPU agree.
#[test]
fn a_sample_passes_on_the_cpu() {
    let engine = attn::Engine::cpu();
    let cheap = serving().into_iter().filter(|case| case.check_cost() < 2_000_000);
    for case in cheap.step_by(17) {
        let case = Case { kernel: "auto".to_owned(), ..case };
        let result = crate::check(&case, &engine).unwrap_or_else(|error| panic!("{}: {error}", case.title()));
        assert!(result.passed, "{}: {}", case.title(), result.why());
    }
}
