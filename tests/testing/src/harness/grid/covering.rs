//! The check grid: a covering design over the factors of `cells`. Every variant meets every cell in both kernels;
//! group, page layout and lengths are chosen such that as many pairs of values as possible meet.

use std::collections::HashSet;

use super::{
    cells::{CELLS, Cell, VARIANTS, all_pairs, check_cell, dtype_of, lengths, named, page_layouts, set_lens},
    large_logits, pairs, scaled,
};
use crate::{Case, Order, random::Random};

/// The check grid: at least 400 cases.
#[must_use]
pub fn check() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut seen = HashSet::new();
    let mut random = Random::new(2024, 0);
    for round in 0..2 {
        for variant in 0..VARIANTS.len() {
            for kernel in ["prefill", "decode"] {
                for cell in 0..CELLS.len() {
                    let wanted = Wanted { variant, kernel, cell, round };
                    // of some random picks, the one with most new pairs
                    let tries = (0..48).map(|_| wanted.choose(&mut random));
                    let fresh = |pairs: &[_]| pairs.iter().filter(|p| !seen.contains(*p)).count();
                    let best =
                        tries.map(|pick| (pick.pairs(&wanted), pick)).rev().max_by_key(|(pairs, _)| fresh(pairs));
                    if let Some((pairs, pick)) = best {
                        seen.extend(pairs);
                        cases.push(pick.case(&wanted, cases.len()));
                    }
                }
            }
        }
    }
    cases.extend(scaled::check(cases.len()));
    cases.extend(large_logits::check(cases.len()));
    cases.extend(pairs::check(cases.len()));
    cases
}

/// The fixed factors of a case.
struct Wanted {
    /// Its number in [`VARIANTS`].
    variant: usize,
    kernel: &'static str,
    /// Its number in [`CELLS`].
    cell: usize,
    round: usize,
}

/// The chosen factors: indices into the tables of `cells`.
struct Pick {
    group: u32,
    page_layout: (u32, Order),
    lens: usize,
}

impl Wanted {
    fn choose(&self, random: &mut Random) -> Pick {
        let case = check_cell(self.variant, VARIANTS[self.variant], self.kernel, &CELLS[self.cell]);
        let groups = CELLS[self.cell].groups;
        let page_layouts = page_layouts(&case);
        let lens = lengths(self.kernel);
        Pick {
            // not random: every variant meets both groups of a class
            group: groups[(self.round + self.cell) % groups.len()],
            page_layout: page_layouts[random.below(page_layouts.len() as u64) as usize],
            lens: random.below(lens.len() as u64) as usize,
        }
    }
}

impl Pick {
    /// Every pair of values of this case.
    fn pairs(&self, wanted: &Wanted) -> Vec<(String, String)> {
        let cell = &CELLS[wanted.cell];
        let dtype = dtype_of(wanted.variant, cell);
        let Cell { head_dim, paged, .. } = cell;
        let values = [
            VARIANTS[wanted.variant].to_owned(),
            format!("{} lengths {}", wanted.kernel, self.lens),
            format!("group {}", self.group),
            format!("paged {paged} {:?}", self.page_layout),
            format!("{dtype} {head_dim}"),
            wanted.kernel.to_owned(),
        ];
        all_pairs(&values)
    }

    fn case(&self, wanted: &Wanted, number: usize) -> Case {
        let variant = VARIANTS[wanted.variant];
        let mut case = check_cell(wanted.variant, variant, wanted.kernel, &CELLS[wanted.cell]);
        let lens @ (_, kv_lens) = &lengths(wanted.kernel)[self.lens];
        let long = kv_lens.iter().any(|&len| len > 10_000);
        // the reference is slow: few heads for many keys
        case.kv_heads = if long { 1 } else { 1 + u32::from(self.group < 7) };
        case.qo_heads = self.group * case.kv_heads;
        (case.page_size, case.page_order) = self.page_layout;
        set_lens(&mut case, lens);
        case.seed = number as u64;
        case.graph = number.is_multiple_of(3);
        // Every other case with a cap has logits that reach it. Not after a rotation in prefill: transformed rows are
        // rounded to f16, which shows at logits of that size.
        let capped = variant.contains("soft_cap") && !variant.contains("rope");
        if capped && (wanted.cell + wanted.round).is_multiple_of(2) {
            case.q_std = Some(12.0);
        }
        named(case, "check", number)
    }
}
