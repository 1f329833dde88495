//! Widths: rows of every multiple of 16, long ones, values of another width than keys and of the keys themselves; and every ratio of heads.
//!
//! Each width runs three times in each kernel: in bf16, in f16, and over a cache of 8 bits. Variants, layouts, ratios and lengths go round,
//! in steps that have no common divisor, so that they meet differently.

use super::{Case, LayoutKind, Lengths, Order, set_lens};
use crate::ValueRows;

/// What has rows in hand; `{half}` is half of head_dim.
const VARIANTS: [&str; 13] = [
    "causal",
    "rope",
    "causal + rope(rotary_dim={half})",
    "value_norm",
    "causal + output_norm",
    "qk_norm",
    "causal + qk_norm + rope(rotary_dim=16)",
    "causal + rope(interleaved=true) + value_norm",
    "full",
    "causal + sink + output_norm",
    "soft_cap(cap=30) + value_norm + output_norm",
    "causal + alibi",
    "causal + sliding_window(window=100) + qk_norm + value_norm",
];

/// Page size (0: ragged) and order.
const PLACES: [(u32, Order); 5] =
    [(16, Order::Nhd), (0, Order::Nhd), (1, Order::Hnd), (5, Order::Nhd), (0, Order::Hnd)];

const GROUPS: [u32; 7] = [4, 1, 5, 16, 6, 7, 8];
/// Of one KV head whose keys hold the values.
const LATENT_GROUPS: [u32; 4] = [16, 128, 5, 64];

const PREFILL: [Lengths; 3] =
    [(&[63, 65, 1], &[130, 65, 300]), (&[17, 128], &[517, 128]), (&[0, 70, 5], &[7, 40, 1500])];
const DECODE: [Lengths; 3] =
    [(&[1, 1, 1], &[1, 700, 65]), (&[2, 1, 0], &[2049, 33, 9]), (&[1, 1, 1, 1], &[255, 3000, 17, 96])];
const LATENT_PREFILL: [Lengths; 2] = [(&[9, 33], &[300, 33]), (&[1, 20, 0], &[700, 65, 4])];

fn widths() -> Vec<(u32, ValueRows)> {
    let same = (16..=256).step_by(16).map(|dim| (dim, ValueRows::Same));
    let others = [
        (512, ValueRows::Same),
        (192, ValueRows::Dim(128)),
        (64, ValueRows::Dim(128)),
        (128, ValueRows::Dim(64)),
        (48, ValueRows::Dim(80)),
        (256, ValueRows::Dim(128)),
        (512, ValueRows::Same),
        (576, ValueRows::OfKeys(512)),
        (576, ValueRows::OfKeys(512)),
        (192, ValueRows::OfKeys(128)),
        (576, ValueRows::OfKeys(512)),
    ];
    same.chain(others).collect()
}

/// The cases.
#[must_use]
pub fn dims() -> Vec<Case> {
    let mut cases = Vec::new();
    for (width, (head_dim, values)) in widths().into_iter().enumerate() {
        for (of_kernel, kernel) in ["prefill", "decode"].into_iter().enumerate() {
            for of_types in 0..3 {
                cases.push(case(cases.len(), width, [of_kernel, of_types], (head_dim, values), kernel));
            }
        }
    }
    cases
}

fn case(
    number: usize,
    width: usize,
    [of_kernel, of_types]: [usize; 2],
    (head_dim, values): (u32, ValueRows),
    kernel: &str,
) -> Case {
    let variant = VARIANTS[(3 * width + 5 * of_kernel + of_types) % VARIANTS.len()];
    let mut case = Case::new(variant.replace("{half}", &(head_dim / 2).to_string()));
    kernel.clone_into(&mut case.kernel);
    (case.head_dim, case.values) = (head_dim, values);
    ["bf16", "f16", ["bf16", "f16"][width % 2]][of_types].clone_into(&mut case.dtype);
    if of_types == 2 {
        case.kv_dtype = Some(["e4m3", "e4m3", "e5m2"][width % 3].to_owned());
        case.kv_scale = width.is_multiple_of(2).then_some(0.375);
        case.kv_scale_per_head = width.is_multiple_of(3);
    }
    let (page_size, order) = PLACES[(width + 2 * of_types + of_kernel) % PLACES.len()];
    case.page_order = order;
    if page_size > 0 {
        (case.kv_layout, case.page_size) = (LayoutKind::Paged, page_size);
    }
    let turn = width + of_types + of_kernel;
    let lens: &[Lengths] = match (kernel, values) {
        ("prefill", ValueRows::OfKeys(_)) => &LATENT_PREFILL,
        ("prefill", _) => &PREFILL,
        _ => &DECODE,
    };
    set_lens(&mut case, &lens[turn % lens.len()]);
    (case.kv_heads, case.qo_heads) = match values {
        ValueRows::OfKeys(_) => (1, LATENT_GROUPS[turn % LATENT_GROUPS.len()]),
        _ => (2, 2 * GROUPS[(2 * width + of_kernel + 3 * of_types) % GROUPS.len()]),
    };
    case.seed = number as u64;
    case.graph = number.is_multiple_of(4);
    case.name = Some(format!("dims-{number:03} {kernel} {head_dim}/{values} {}", case.variant));
    case
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Case, VARIANTS, dims, widths};

    #[test]
    fn every_width_meets_every_type_and_every_ratio_is_there() {
        let cases = dims();
        assert_eq!(cases.len(), 6 * widths().len());
        for kernel in ["prefill", "decode"] {
            let of: Vec<_> = cases.iter().filter(|case| case.kernel == kernel).collect();
            for (head_dim, values) in widths() {
                let types: HashSet<_> = of
                    .iter()
                    .filter(|c| (c.head_dim, c.values) == (head_dim, values))
                    .map(|c| c.kv_dtype.is_some())
                    .collect();
                assert_eq!(types.len(), 2, "{kernel} {head_dim} {values}");
            }
            let groups: HashSet<_> = of.iter().map(|case| case.qo_heads / case.kv_heads).collect();
            for group in [1, 4, 5, 6, 7, 8, 16, 64, 128] {
                assert!(groups.contains(&group), "{kernel} group {group}");
            }
            let variants: HashSet<_> = of.iter().map(|case| &case.variant).collect();
            assert!(variants.len() >= VARIANTS.len(), "{kernel} {variants:?}");
            let layouts: HashSet<_> = of.iter().map(|c| (c.kv_layout, c.page_order, c.page_size)).collect();
            assert_eq!(layouts.len(), 5, "{kernel}");
        }
        let dear = cases.iter().map(Case::check_cost).max();
        assert!(dear < Some(1_500_000_000), "{dear:?}");
    }

    #[test]
    fn the_committed_file_is_this_grid() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/cases/dims.jsonl");
        let there = Case::parse_lines(&std::fs::read_to_string(path).expect("a committed case file")).expect("cases");
        assert!(there == dims(), "{path} is not the grid; write it anew: attn check --grid dims --list > {path}");
    }
}
