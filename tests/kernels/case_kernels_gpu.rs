//! The kernels that are listed for a case are those that it runs: once they are compiled, checking and timing it
//! compiles none. Skipped without a GPU.

use attn::{Preparation, PrepareOptions};
use attn_kernels::cache::CubinCache;
use attn_testing::{Case, LayoutKind, Lens, RunMode, add_kernels, bench_mode, check, grid};
use attn_tests::gpu::gpu;

/// It runs alone in its process (under nextest, or by its name), because the counts are those of the process.
#[test]
fn the_listed_kernels_of_a_case_are_those_that_it_runs() {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let Some(engine) = gpu() else { return };
    let preparation = Preparation::without_loading(&engine);
    // ragged, paged and shared keys, with and without graphs
    let checked: Vec<Case> = grid::serving().into_iter().step_by(61).collect();
    let timed = Case {
        kv_layout: LayoutKind::Paged,
        qo_lens: Lens::List(vec![20, 1, 33, 2]),
        kv_lens: Lens::List(vec![64, 100, 33, 17]),
        ..Case::new("causal")
    };
    let modes = [RunMode::AsIs, RunMode::Auto, RunMode::Sequential, RunMode::Ragged];
    for case in &checked {
        add_kernels(case, RunMode::AsIs, &engine, &preparation, false).expect("it can be planned");
    }
    for mode in modes {
        add_kernels(&timed, mode, &engine, &preparation, false).expect("it can be planned");
    }
    let listed = preparation.kernels();
    assert!(listed > 20, "{listed} kernels");
    let report = preparation.run(PrepareOptions::default()).expect("every kernel compiles");
    assert_eq!(report.kernels(), listed);

    let compiled = || CubinCache::global().stats().compiled;
    let before = compiled();
    for case in &checked {
        let result = check(case, &engine).expect("it runs");
        assert!(result.passed, "{}: {}", case.title(), result.why());
        assert_eq!(compiled(), before, "{} compiles another kernel", case.title());
    }
    for mode in modes {
        bench_mode(&timed, mode, &engine, 1).expect("it runs");
        assert_eq!(compiled(), before, "{mode} compiles another kernel");
    }
}
