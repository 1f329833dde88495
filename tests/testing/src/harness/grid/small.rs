//! The small grid: a few short cases of everything.

use super::{
    cells::{CELLS, VARIANTS, check_cell, lengths_within, named, page_layouts, set_lens},
    large_logits, pairs, scaled, serving,
};
use crate::Case;

/// The small grid, for tools that slow a kernel down a hundredfold: every variant in both kernels with short lengths,
/// and a few fp8 caches.
#[must_use]
pub fn small() -> Vec<Case> {
    let mut cases = Vec::new();
    for (variant, expr) in VARIANTS.iter().enumerate() {
        for (k, kernel) in ["prefill", "decode"].into_iter().enumerate() {
            // each factor goes round at a pace of its own, so that variants meet different combinations
            let cell = &CELLS[(variant + 3 * k) % CELLS.len()];
            let mut case = check_cell(variant, expr, kernel, cell);
            case.kv_heads = 2;
            case.qo_heads = 2 * cell.groups[variant % cell.groups.len()];
            let page_layouts = page_layouts(&case);
            (case.page_size, case.page_order) = page_layouts[(variant + k) % page_layouts.len()];
            let lens = lengths_within(kernel, 1100);
            set_lens(&mut case, lens[variant % lens.len()]);
            case.seed = variant as u64;
            cases.push(named(case, "small", variant * 2 + k));
        }
    }
    cases.extend(scaled::small(cases.len()));
    for case in serving::small() {
        let number = cases.len();
        cases.push(named(Case { seed: number as u64, ..case }, "small", number));
    }
    cases.extend(large_logits::small(cases.len()));
    cases.extend(pairs::small(cases.len()));
    cases
}
