//! A bias for each pair of query and key, in prefill: tables that end within a tile, rows that are aligned for paired
//! loads or not, and large logits.

use super::cells::{Lengths, named, set_lens};
use crate::{Case, LayoutKind};

/// Lengths, and rows and columns of the table.
const SHAPES: [(Lengths, [u32; 2]); 5] = [
    ((&[200, 100], &[300, 157]), [200, 300]),
    ((&[130, 65], &[257, 135]), [130, 257]),
    ((&[190, 95], &[515, 264]), [100, 333]),
    ((&[64, 32], &[1024, 519]), [64, 1024]),
    ((&[300, 150], &[640, 327]), [300, 648]),
];
const SMALL: (Lengths, [u32; 2]) = ((&[66, 3], &[135, 20]), [66, 133]);
const HEAD_DIMS: [u32; 3] = [64, 128, 256];

/// The cases, numbered from `first`.
pub(super) fn check(first: usize) -> Vec<Case> {
    let shapes = HEAD_DIMS.into_iter().flat_map(|dim| SHAPES.map(|shape| (dim, shape)));
    let both = shapes.flat_map(|of| ["", "causal + "].map(|mask| (mask, of)));
    both.enumerate().map(|(at, (mask, (dim, shape)))| pairs(mask, dim, shape, "check", first + at)).collect()
}

/// One case of each head dim, numbered from `first`.
pub(super) fn small(first: usize) -> Vec<Case> {
    HEAD_DIMS.into_iter().enumerate().map(|(at, dim)| pairs("", dim, SMALL, "small", first + at)).collect()
}

fn pairs(mask: &str, head_dim: u32, (lens, [rows, columns]): (Lengths, [u32; 2]), grid: &str, number: usize) -> Case {
    let mut case = Case::new(format!("{mask}pair_bias(rows={rows}, columns={columns})"));
    "prefill".clone_into(&mut case.kernel);
    ["bf16", "f16"][number % 2].clone_into(&mut case.dtype);
    (case.qo_heads, case.kv_heads, case.head_dim) = (4, 2, head_dim);
    if number % 3 == 1 {
        (case.kv_layout, case.page_size) = (LayoutKind::Paged, 16);
    }
    set_lens(&mut case, &lens);
    case.q_std = number.is_multiple_of(3).then_some(20.0);
    case.seed = number as u64;
    case.graph = number.is_multiple_of(4);
    named(case, grid, number)
}
