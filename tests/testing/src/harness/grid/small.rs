//! The small grid.

use super::cells::{CELLS, GROUPS, Lengths, VARIANTS, check_cell, lengths, named, page_layouts, set_lens};
use super::{large_logits, pairs, scaled, serving};
use crate::Case;

/// The small grid, for tools that slow a kernel down a hundredfold: every variant in both kernels with short lengths,
/// and a few fp8 caches.
#[must_use]
pub fn small() -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, variant) in VARIANTS.iter().enumerate() {
        for (k, kernel) in ["prefill", "decode"].into_iter().enumerate() {
            let mut case = check_cell(at, variant, kernel, (at + 3 * k) % CELLS.len());
            let group = GROUPS[CELLS[(at + 3 * k) % CELLS.len()].3];
            case.kv_heads = 2;
            case.qo_heads = 2 * group[at % group.len()];
            let (page_size, order) = page_layouts(&case)[(at + k) % page_layouts(&case).len()];
            (case.page_size, case.page_order) = (page_size, order);
            let short = |lens: &&Lengths| lens.1.iter().sum::<u32>() <= 1100;
            let lens: Vec<&Lengths> = lengths(kernel).iter().filter(short).collect();
            set_lens(&mut case, lens[at % lens.len()]);
            case.seed = at as u64;
            cases.push(named(case, "small", at * 2 + k));
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
