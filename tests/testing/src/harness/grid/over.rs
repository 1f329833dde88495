//! Grids over expressions of the caller.

use super::cells::{CELLS, check_cell, lengths_within, named, page_layouts, set_lens};
use crate::Case;

/// Every expression in both kernels, each in three cells: ragged and paged, both types, every head dim, groups, odd
/// lengths. All expressions together cover every cell and every list of lengths of up to 5000 keys.
///
/// Required tensors are filled from the seed. Given tensors must fit the case's heads and lengths.
#[must_use]
pub fn over<S: AsRef<str>>(exprs: &[S]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, expr) in exprs.iter().enumerate() {
        for (k, kernel) in ["prefill", "decode"].into_iter().enumerate() {
            let lens = lengths_within(kernel, 5000);
            for round in 0..3 {
                // any three consecutive cells have both types, and paged and ragged keys
                let cell = &CELLS[(at + k + round) % CELLS.len()];
                let mut case = check_cell(at, expr.as_ref(), kernel, cell);
                let page_layouts = page_layouts(&case);
                let group = cell.groups[(at + round) % cell.groups.len()];
                case.kv_heads = if group < 7 { 2 } else { 1 };
                case.qo_heads = group * case.kv_heads;
                (case.page_size, case.page_order) = page_layouts[(at + round) % page_layouts.len()];
                set_lens(&mut case, lens[(3 * at + round) % lens.len()]);
                case.seed = cases.len() as u64;
                case.graph = round == 1;
                cases.push(named(case, "over", at * 6 + k * 3 + round));
            }
        }
    }
    cases
}
