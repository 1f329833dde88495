//! Head dims: every multiple of 16, large ones, values of another head dim than keys or in the memory of the keys; odd
//! multiples of 8 and others that CUDA cores alone have kernels for; and every ratio of heads.
//!
//! Each head dim runs three times in each kernel: in bf16, in f16, and over an fp8 cache. Variants, layouts, ratios and
//! lengths cycle with coprime steps, so that they meet differently.

use attn::HeadDimVo;

use super::cells::{Lengths, set_lens};
use crate::{Case, LayoutKind, Order};

/// Variants that read or write whole rows; `{half}` is half of head_dim.
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
/// Group sizes of a latent cache (one KV head whose keys hold the values).
const LATENT_GROUPS: [u32; 4] = [16, 128, 5, 64];

const PREFILL: [Lengths; 3] =
    [(&[63, 65, 1], &[130, 65, 300]), (&[17, 128], &[517, 128]), (&[0, 70, 5], &[7, 40, 1500])];
const DECODE: [Lengths; 3] =
    [(&[1, 1, 1], &[1, 700, 65]), (&[2, 1, 0], &[2049, 33, 9]), (&[1, 1, 1, 1], &[255, 3000, 17, 96])];
const LATENT_PREFILL: [Lengths; 2] = [(&[9, 33], &[300, 33]), (&[1, 20, 0], &[700, 65, 4])];

fn head_dims() -> Vec<(u32, HeadDimVo)> {
    let same = (16..=256).step_by(16).map(|dim| (dim, HeadDimVo::Same));
    let others = [
        (512, HeadDimVo::Same),
        (192, HeadDimVo::Dim(128)),
        (64, HeadDimVo::Dim(128)),
        (128, HeadDimVo::Dim(64)),
        (48, HeadDimVo::Dim(80)),
        (256, HeadDimVo::Dim(128)),
        (512, HeadDimVo::Same),
        (576, HeadDimVo::SharedWithKeys(512)),
        (576, HeadDimVo::SharedWithKeys(512)),
        (192, HeadDimVo::SharedWithKeys(128)),
        (576, HeadDimVo::SharedWithKeys(512)),
    ];
    let on_cuda_cores = [
        (8, HeadDimVo::Same),
        (24, HeadDimVo::Same),
        (40, HeadDimVo::Dim(24)),
        (72, HeadDimVo::Dim(136)),
        (120, HeadDimVo::Same),
        (200, HeadDimVo::Same),
        (264, HeadDimVo::Same),
        (320, HeadDimVo::Same),
        (504, HeadDimVo::Same),
        (64, HeadDimVo::Dim(512)),
    ];
    same.chain(others).chain(on_cuda_cores).collect()
}

/// The cases.
#[must_use]
pub fn dims() -> Vec<Case> {
    let mut cases = Vec::new();
    for (row, (head_dim, values)) in head_dims().into_iter().enumerate() {
        for (of_kernel, kernel) in ["prefill", "decode"].into_iter().enumerate() {
            for of_types in 0..3 {
                cases.push(case(cases.len(), row, [of_kernel, of_types], (head_dim, values), kernel));
            }
        }
    }
    cases
}

fn case(
    number: usize,
    row: usize,
    [of_kernel, of_types]: [usize; 2],
    (head_dim, values): (u32, HeadDimVo),
    kernel: &str,
) -> Case {
    let variant = VARIANTS[(3 * row + 5 * of_kernel + of_types) % VARIANTS.len()];
    let mut case = Case::new(variant.replace("{half}", &(head_dim / 2).to_string()));
    kernel.clone_into(&mut case.kernel);
    (case.head_dim, case.head_dim_vo) = (head_dim, values);
    ["bf16", "f16", ["bf16", "f16"][row % 2]][of_types].clone_into(&mut case.dtype);
    if of_types == 2 {
        case.kv_dtype = Some(["e4m3", "e4m3", "e5m2"][row % 3].to_owned());
        case.kv_scale = row.is_multiple_of(2).then_some(0.375);
        case.kv_scale_per_head = row.is_multiple_of(3);
    }
    let (page_size, order) = PLACES[(row + 2 * of_types + of_kernel) % PLACES.len()];
    case.page_order = order;
    if page_size > 0 {
        (case.kv_layout, case.page_size) = (LayoutKind::Paged, page_size);
    }
    let step = row + of_types + of_kernel;
    let lens: &[Lengths] = match (kernel, values) {
        ("prefill", HeadDimVo::SharedWithKeys(_)) => &LATENT_PREFILL,
        ("prefill", _) => &PREFILL,
        _ => &DECODE,
    };
    set_lens(&mut case, &lens[step % lens.len()]);
    (case.kv_heads, case.qo_heads) = match values {
        HeadDimVo::SharedWithKeys(_) => (1, LATENT_GROUPS[step % LATENT_GROUPS.len()]),
        _ => (2, 2 * GROUPS[(2 * row + of_kernel + 3 * of_types) % GROUPS.len()]),
    };
    case.seed = number as u64;
    case.graph = number.is_multiple_of(4);
    case.name = Some(format!("dims-{number:03} {kernel} {head_dim}/{values} {}", case.variant));
    case
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Case, VARIANTS, dims, head_dims};

    #[test]
    fn every_head_dim_meets_every_type_and_all_ratios_occur() {
        let cases = dims();
        assert_eq!(cases.len(), 6 * head_dims().len());
        for kernel in ["prefill", "decode"] {
            let of: Vec<_> = cases.iter().filter(|case| case.kernel == kernel).collect();
            for (head_dim, values) in head_dims() {
                let types: HashSet<_> = of
                    .iter()
                    .filter(|c| (c.head_dim, c.head_dim_vo) == (head_dim, values))
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
}
