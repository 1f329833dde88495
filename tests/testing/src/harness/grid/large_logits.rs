//! Large logits, of standard deviation 6 to 100. From one KV tile to the next the row max grows by about the range of
//! an f32 exponent, or by far more.

use super::cells::{Lengths, named, set_lens};
use crate::{Case, LayoutKind, Order};

const VARIANTS: [&str; 6] =
    ["full", "causal", "causal + alibi", "causal + sliding_window(window=300)", "causal + sink", "causal + rope"];
/// Standard deviations of logits.
const STDS: [f32; 3] = [6.0, 40.0, 100.0];
const HEAD_DIMS: [u32; 3] = [64, 128, 256];
const PREFILL: [Lengths; 3] = [(&[260, 3], &[1100, 3]), (&[700], &[700]), (&[31, 0, 200], &[900, 7, 450])];
const DECODE: Lengths = (&[1, 2, 1], &[1100, 65, 2500]);

/// The cases, numbered from `first`: all variants in prefill at all head dims, half of them in decode.
pub(super) fn check(first: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, variant) in VARIANTS.into_iter().enumerate() {
        for (d, head_dim) in HEAD_DIMS.into_iter().enumerate() {
            for kernel in ["prefill", "decode"] {
                if kernel == "decode" && (at + d) % 2 == 1 {
                    continue;
                }
                let lens = if kernel == "prefill" { &PREFILL[(at + d) % PREFILL.len()] } else { &DECODE };
                cases.push(large_logits(variant, kernel, head_dim, at + d, lens, "check", first + cases.len()));
            }
        }
    }
    cases
}

/// A few short cases of prefill, numbered from `first`: each head dim and type.
pub(super) fn small(first: usize) -> Vec<Case> {
    let lens: Lengths = (&[70, 3], &[260, 3]);
    let dims = HEAD_DIMS.into_iter().flat_map(|dim| [dim, dim]).enumerate();
    dims.map(|(at, dim)| large_logits(VARIANTS[at], "prefill", dim, at, &lens, "small", first + at)).collect()
}

fn large_logits(
    variant: &str,
    kernel: &str,
    head_dim: u32,
    at: usize,
    lens: &Lengths,
    grid: &str,
    number: usize,
) -> Case {
    let mut case = Case::new(variant);
    kernel.clone_into(&mut case.kernel);
    ["bf16", "f16"][at % 2].clone_into(&mut case.dtype);
    (case.qo_heads, case.kv_heads, case.head_dim) = ([2, 4, 7][at % 3], [2, 1, 1][at % 3], head_dim);
    if at % 4 >= 2 {
        (case.kv_layout, case.page_size, case.page_order) =
            (LayoutKind::Paged, [16, 5][at % 2], [Order::Nhd, Order::Hnd][at % 2]);
    }
    set_lens(&mut case, lens);
    // rotated rows are rounded, which shows at the largest logits
    let std = if variant.contains("rope") { STDS[0] } else { STDS[number % 3] };
    case.q_std = Some(std);
    case.seed = number as u64;
    case.graph = number.is_multiple_of(3);
    named(case, grid, number)
}
