//! Properties of the grids.

use std::collections::HashSet;

use super::cells::{CELLS, VARIANTS};
use super::{check, counting, dims, over, serving, small};
use crate::{Case, LayoutKind, Order};

#[test]
fn the_check_grid_covers_all_factors() {
    let cases = check();
    assert!(cases.len() >= 400, "{}", cases.len());
    let long = cases.iter().filter(|c| c.kv_lens.to_vec().iter().any(|&k| k > 2048)).count();
    assert!(4 * long >= cases.len(), "{long} of {} have more than 2048 keys", cases.len());
    for kernel in ["prefill", "decode"] {
        for dtype in ["f16", "bf16"] {
            for dim in [64, 128, 256] {
                for (page, layout) in
                    [(1, LayoutKind::Paged), (5, LayoutKind::Paged), (16, LayoutKind::Paged), (16, LayoutKind::Ragged)]
                {
                    let there = cases.iter().any(|c| {
                        c.kernel == kernel
                            && c.dtype == dtype
                            && c.head_dim == dim
                            && c.kv_layout == layout
                            && c.page_size == page
                    });
                    assert!(there, "no {kernel} {dtype} {dim} {layout:?} {page}");
                }
            }
        }
        for variant in VARIANTS {
            for group in [1, 3, 4, 7, 8] {
                let there = cases
                    .iter()
                    .any(|c| c.kernel == kernel && c.variant == variant && c.qo_heads / c.kv_heads == group);
                assert!(there, "no {kernel} {variant} with group {group}");
            }
        }
    }
    assert!(cases.iter().any(|c| c.page_order == Order::Hnd && c.kv_layout == LayoutKind::Paged));
    let names: HashSet<_> = cases.iter().map(|c| c.title()).collect();
    assert_eq!(names.len(), cases.len());
    let dear = cases.iter().map(Case::check_cost).max();
    assert!(dear < Some(3_000_000_000), "{dear:?}");
}

#[test]
fn the_small_grid_is_small() {
    let cases = small();
    assert!(cases.len() >= 40 && cases.iter().map(Case::check_cost).sum::<u64>() < 1_000_000_000);
}

#[test]
fn a_grid_over_expressions_has_each_in_every_layout_and_type() {
    let exprs = ["full", "causal", "alibi", "rope", "sink", "qk_norm", "causal + sink"];
    let cases = over(&exprs);
    assert_eq!(cases.len(), 6 * exprs.len());
    for expr in exprs {
        for kernel in ["prefill", "decode"] {
            let of = |case: &&Case| case.variant == expr && case.kernel == kernel;
            let layouts: HashSet<_> = cases.iter().filter(of).map(|case| case.kv_layout).collect();
            let dtypes: HashSet<_> = cases.iter().filter(of).map(|case| case.dtype.clone()).collect();
            assert_eq!((layouts.len(), dtypes.len()), (2, 2), "{expr} in {kernel}");
        }
    }
    let cells: HashSet<_> = cases.iter().map(|c| (c.head_dim, c.kv_layout, c.qo_heads / c.kv_heads)).collect();
    assert!(cells.len() > CELLS.len(), "{cells:?}");
    let names: HashSet<_> = cases.iter().map(Case::title).collect();
    assert_eq!(names.len(), cases.len());
}

#[test]
fn grids_survive_a_case_file() {
    for (grid, cases) in
        [("check", check()), ("small", small()), ("serving", serving()), ("dims", dims()), ("counting", counting())]
    {
        let lines: Vec<String> = cases.iter().map(|case| serde_json::to_string(case).expect("JSON")).collect();
        let read = Case::parse_lines(&lines.join("\n")).expect("cases");
        assert!(read == cases, "the grid {grid} differs after a round trip through JSON lines");
    }
}

#[test]
fn keys_are_counted_in_every_kernel_layout_and_type() {
    let cases = counting();
    assert!(cases.len() >= 1000, "{}", cases.len());
    let meet = |what: &str, of: &dyn Fn(&Case) -> bool| assert!(cases.iter().any(of), "no {what}");
    for kernel in ["prefill", "decode", "mixed"] {
        for layout in [LayoutKind::Ragged, LayoutKind::Paged, LayoutKind::BlockTable] {
            for (dtype, kv) in [("f16", None), ("bf16", None), ("bf16", Some("e4m3")), ("f16", Some("e5m2"))] {
                let of = |c: &Case| c.dtype == dtype && c.kv_dtype.as_deref() == kv;
                meet(&format!("{kernel} {layout:?} {dtype} {kv:?}"), &|c| {
                    c.kernel == kernel && c.kv_layout == layout && of(c)
                });
            }
        }
    }
    for layout in [LayoutKind::Cascade, LayoutKind::RaggedCascade] {
        meet(&format!("{layout:?}"), &|c| c.kernel == "mixed" && c.kv_layout == layout);
    }
    for dim in [16, 64, 120, 128, 256, 504, 512, 576] {
        meet(&format!("head_dim {dim}"), &|c| c.head_dim == dim);
    }
    meet("a KV list", &|c| c.variant.contains("token_list"));
    meet("a graph", &|c| c.graph);
}

/// The CPU has one kernel.
#[test]
fn a_sample_of_the_counts_is_right_on_the_cpu() {
    let engine = attn::Engine::cpu();
    let cheap = counting().into_iter().filter(|case| case.check_cost() < 30_000);
    let mut cases = 0;
    for case in cheap.step_by(7) {
        let case = Case { kernel: "auto".to_owned(), ..case };
        let result = crate::check(&case, &engine).unwrap_or_else(|error| panic!("{}: {error}", case.title()));
        assert!(result.passed, "{}: {}", case.title(), result.why());
        cases += 1;
    }
    assert!(cases > 80, "{cases}");
}
