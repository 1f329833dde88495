//! fp8 caches, and caches with scales: a covering design as in the check grid.

use std::collections::HashSet;

use super::cells::{Lengths, PAGED, RAGGED, all_pairs, lengths, named, set_lens};
use crate::{Case, LayoutKind, Order, random::Random};

/// Variants that read keys and values as stored, and that transform them.
const DECODE: [&str; 14] = [
    "full",
    "causal",
    "causal + sliding_window(window=100)",
    "soft_cap(cap=30)",
    "causal + alibi",
    "rope",
    "causal + rope(interleaved=true, theta=500000)",
    "causal + qk_norm + rope",
    "value_norm",
    "causal + rope + value_norm",
    "k_smoothing",
    "causal + sink",
    "sigmoid(bias=-4)",
    "rope + union(causal + sliding_window(window=64), not(causal) + soft_cap(cap=3))",
];
const PREFILL: [&str; 6] = [
    "full",
    "causal",
    "causal + alibi + sliding_window(window=65)",
    "rope",
    "causal + rope + value_norm",
    "value_norm",
];

/// Types of keys and values; `None` is that of the queries, with scales.
const TYPES: [Option<&str>; 3] = [Some("e4m3"), Some("e5m2"), None];
const HEAD_DIMS: [u32; 3] = [64, 128, 256];
const GROUPS: [u32; 5] = [1, 3, 4, 7, 8];
/// The scale of the tensor, and whether heads have scales; the first is none.
const SCALES: [(Option<f32>, bool); 4] = [(None, false), (Some(0.375), false), (None, true), (Some(1.75), true)];

/// The cases, numbered from `first`.
pub(super) fn check(first: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let (mut seen, mut random) = (HashSet::new(), Random::new(8, 0));
    for (kernel, variants) in [("decode", &DECODE[..]), ("prefill", &PREFILL[..])] {
        for (at, variant) in variants.iter().enumerate() {
            for (cell, (kv_dtype, head_dim)) in cells().into_iter().enumerate() {
                // every cell in decode; in prefill, and for 16-bit caches, one of three
                if (kernel == "prefill" || kv_dtype.is_none()) && (at + cell) % 3 != 0 {
                    continue;
                }
                let tries = (0..48).map(|_| Pick::new(kernel, kv_dtype, &mut random));
                let tries = tries.map(|pick| (pick.pairs(kernel, variant, kv_dtype, head_dim), pick));
                let fresh = |pairs: &[_]| pairs.iter().filter(|pair| !seen.contains(*pair)).count();
                if let Some((pairs, pick)) = tries.max_by_key(|(pairs, _)| fresh(pairs)) {
                    seen.extend(pairs);
                    let number = first + cases.len();
                    let mut case = pick.case(kernel, variant, kv_dtype, head_dim);
                    case.seed = number as u64;
                    case.graph = number.is_multiple_of(3);
                    cases.push(named(case, "check", number));
                }
            }
        }
    }
    cases
}

/// A few short cases, numbered from `first`: each type and head dim in decode, each type in prefill.
pub(super) fn small(first: usize) -> Vec<Case> {
    let wanted = cells().into_iter().filter(|(kv_dtype, _)| kv_dtype.is_some());
    let decode = wanted.clone().zip(["full", "causal + rope + value_norm", "causal + sink"].into_iter().cycle());
    let prefill = wanted.step_by(2).zip(["causal", "rope + value_norm"].into_iter().cycle());
    let all = decode.map(|cell| ("decode", cell)).chain(prefill.map(|cell| ("prefill", cell)));
    let mut cases = Vec::new();
    for (at, (kernel, ((kv_dtype, head_dim), variant))) in all.enumerate() {
        let short = |lens: &Lengths| lens.1.iter().sum::<u32>() <= 1100;
        let short: Vec<usize> = (0..lengths(kernel).len()).filter(|&lens| short(&lengths(kernel)[lens])).collect();
        let pick = Pick {
            dtype: ["bf16", "f16"][at % 2],
            group: GROUPS[at % GROUPS.len()],
            page_layout: page_layouts()[3 * at % page_layouts().len()],
            scale: SCALES[at % SCALES.len()],
            lens: short[at % short.len()],
        };
        let mut case = pick.case(kernel, variant, kv_dtype, head_dim);
        case.seed = (first + at) as u64;
        cases.push(named(case, "small", first + at));
    }
    cases
}

/// Types of keys and values, and head dims.
fn cells() -> Vec<(Option<&'static str>, u32)> {
    TYPES.into_iter().flat_map(|kv_dtype| HEAD_DIMS.map(|head_dim| (kv_dtype, head_dim))).collect()
}

fn page_layouts() -> Vec<(LayoutKind, u32, Order)> {
    let paged = PAGED.map(|(page_size, order)| (LayoutKind::Paged, page_size, order));
    let ragged = RAGGED.map(|(page_size, order)| (LayoutKind::Ragged, page_size, order));
    [&paged[..], &ragged[..]].concat()
}

/// The chosen factors of a case.
struct Pick {
    dtype: &'static str,
    group: u32,
    page_layout: (LayoutKind, u32, Order),
    scale: (Option<f32>, bool),
    lens: usize,
}

impl Pick {
    fn new(kernel: &str, kv_dtype: Option<&str>, random: &mut Random) -> Self {
        fn one<T: Copy>(of: &[T], random: &mut Random) -> T {
            of[random.below(of.len() as u64) as usize]
        }
        Pick {
            dtype: one(&["bf16", "f16"], random),
            group: one(&GROUPS, random),
            page_layout: one(&page_layouts(), random),
            // a 16-bit cache without scales is in the check grid
            scale: one(if kv_dtype.is_none() { &SCALES[1..] } else { &SCALES }, random),
            lens: random.below(lengths(kernel).len() as u64) as usize,
        }
    }

    /// Every pair of values of a case.
    fn pairs(&self, kernel: &str, variant: &str, kv_dtype: Option<&str>, head_dim: u32) -> Vec<(String, String)> {
        let values = [
            format!("{kernel} {variant}"),
            format!("{kernel} lengths {}", self.lens),
            format!("{kernel} {kv_dtype:?} {head_dim}"),
            self.dtype.to_owned(),
            format!("group {}", self.group),
            format!("{:?}", self.page_layout),
            format!("{:?}", self.scale),
        ];
        all_pairs(&values)
    }

    fn case(&self, kernel: &str, variant: &str, kv_dtype: Option<&str>, head_dim: u32) -> Case {
        let mut case = Case::new(variant);
        kernel.clone_into(&mut case.kernel);
        self.dtype.clone_into(&mut case.dtype);
        case.kv_dtype = kv_dtype.map(str::to_owned);
        case.head_dim = head_dim;
        (case.kv_layout, case.page_size, case.page_order) = self.page_layout;
        (case.kv_scale, case.kv_scale_per_head) = self.scale;
        set_lens(&mut case, &lengths(kernel)[self.lens]);
        // two KV heads, so that mixing up scales of heads fails; but the reference is slow
        (case.kv_heads, case.qo_heads) = (2, 2 * self.group);
        if case.check_cost() > 1_000_000_000 {
            (case.kv_heads, case.qo_heads) = (1, self.group);
        }
        case
    }
}

#[cfg(test)]
mod tests {
    use super::{Case, GROUPS, LayoutKind, SCALES, TYPES, cells};
    use crate::{Lens, harness::grid::check};

    #[test]
    fn every_type_meets_every_place_group_and_scale() {
        let cases = check();
        let scaled: Vec<&Case> =
            cases.iter().filter(|c| c.kv_dtype.is_some() || c.kv_scale.is_some() || c.kv_scale_per_head).collect();
        let decode = |of: &dyn Fn(&Case) -> bool| scaled.iter().any(|case| case.kernel == "decode" && of(case));
        for (kv_dtype, head_dim) in cells() {
            let of = |case: &Case| case.kv_dtype.as_deref() == kv_dtype && case.head_dim == head_dim;
            assert!(decode(&of), "{kv_dtype:?} {head_dim}");
            if kv_dtype.is_none() {
                continue;
            }
            for (layout, page_size) in
                [(LayoutKind::Paged, 1), (LayoutKind::Paged, 5), (LayoutKind::Paged, 16), (LayoutKind::Ragged, 16)]
            {
                let there = decode(&|case| of(case) && case.kv_layout == layout && case.page_size == page_size);
                assert!(there, "{kv_dtype:?} {head_dim} {layout:?} {page_size}");
            }
            for group in GROUPS {
                let there = decode(&|case| of(case) && case.qo_heads / case.kv_heads == group);
                assert!(there, "{kv_dtype:?} {head_dim} group {group}");
            }
            for scale in SCALES {
                let there = decode(&|case| of(case) && (case.kv_scale, case.kv_scale_per_head) == scale);
                assert!(there, "{kv_dtype:?} {head_dim} scale {scale:?}");
            }
        }
        for kv_dtype in TYPES {
            let prefill = scaled.iter().any(|c| c.kernel == "prefill" && c.kv_dtype.as_deref() == kv_dtype);
            assert!(prefill, "{kv_dtype:?} in prefill");
        }
        assert!(scaled.iter().any(|case| matches!(&case.qo_lens, Lens::List(lens) if lens.contains(&4))));
    }
}
