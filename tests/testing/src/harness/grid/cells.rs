//! The factors of the check grids: expressions, cells, page layouts and lengths. A grid combines them; in a *cell* of
//! the check grids the type, the head dim, the layout and the group sizes are fixed.

use crate::{Case, LayoutKind, Lens, Order};

/// Expressions of the check grid. Required tensors are filled from the seed.
pub(super) const VARIANTS: [&str; 23] = [
    "full",
    "causal",
    "sliding_window(window=33)",
    "causal + sliding_window(window=128)",
    "causal + sliding_window(window=1000)",
    "soft_cap(cap=30)",
    "causal + soft_cap(cap=50)",
    "alibi",
    "causal + alibi",
    "rope",
    "causal + rope(interleaved=true, theta=500000)",
    "causal + rope(rotary_dim=32, scale=4)",
    "qk_norm",
    "causal + qk_norm + rope",
    "sink",
    "causal + sink",
    "sigmoid(bias=-4)",
    "causal + sigmoid(bias=-6)",
    "causal + sliding_window(window=65) + soft_cap(cap=30)",
    "causal + sliding_window(window=127) + sink",
    "causal + alibi + soft_cap(cap=20)",
    "causal + rope + soft_cap(cap=30)",
    "causal + sliding_window(window=513) + rope + sink",
];

/// Factors that go together. Variants with an odd index have the other type in each cell.
pub(super) struct Cell {
    pub(super) dtype: &'static str,
    pub(super) head_dim: u32,
    pub(super) paged: bool,
    /// Query heads of a KV head. Decode kernels have tiles of 1, 4 and 8 rows.
    pub(super) groups: &'static [u32],
}

pub(super) const CELLS: [Cell; 6] = [
    Cell { dtype: "f16", head_dim: 64, paged: false, groups: &[1] },
    Cell { dtype: "bf16", head_dim: 64, paged: true, groups: &[3, 4] },
    Cell { dtype: "f16", head_dim: 128, paged: true, groups: &[7, 8] },
    Cell { dtype: "bf16", head_dim: 128, paged: false, groups: &[1] },
    Cell { dtype: "f16", head_dim: 256, paged: false, groups: &[3, 4] },
    Cell { dtype: "bf16", head_dim: 256, paged: true, groups: &[7, 8] },
];

/// Page sizes and orders. Ragged tensors have an order too.
pub(super) const PAGED: [(u32, Order); 6] =
    [(1, Order::Nhd), (1, Order::Hnd), (5, Order::Nhd), (5, Order::Hnd), (16, Order::Nhd), (16, Order::Hnd)];
pub(super) const RAGGED: [(u32, Order); 2] = [(16, Order::Nhd), (16, Order::Hnd)];

/// Queries and keys of each request.
pub(super) type Lengths = (&'static [u32], &'static [u32]);

/// Prefill: tile edges, odd lengths, chunks behind a long context, empty requests, more queries than keys.
pub(super) const PREFILL: [Lengths; 18] = [
    (&[63], &[63]),
    (&[64, 65], &[64, 65]),
    (&[127], &[129]),
    (&[128, 1], &[128, 128]),
    (&[129, 31], &[257, 31]),
    (&[17, 1, 130, 2], &[17, 513, 130, 1000]),
    (&[0, 7, 9, 0, 3], &[5, 7, 0, 0, 300]),
    (&[70, 5], &[40, 1]),
    (&[129, 40], &[64, 0]),
    (&[1], &[1]),
    (&[33], &[2081]),
    (&[1, 64, 7], &[2049, 2112, 2303]),
    (&[65], &[4097]),
    (&[5, 0, 130], &[8191, 3, 130]),
    (&[200], &[2500]),
    (&[16, 90], &[3000, 90]),
    (&[3], &[131_073]),
    (&[2, 20], &[100_353, 20]),
];

/// Decode: one or a few queries a request; lengths around tiles, splits and pages.
pub(super) const DECODE: [Lengths; 18] = [
    (&[1], &[1]),
    (&[1, 1], &[63, 64]),
    (&[1, 1, 1, 1, 1], &[65, 127, 128, 129, 2]),
    (&[1, 1, 1], &[255, 256, 257]),
    (&[0, 1, 1, 0], &[9, 70, 0, 0]),
    (&[3, 1], &[2, 1]),
    (&[2, 1, 5], &[40, 700, 17]),
    (&[1, 1, 1, 1, 1, 1, 1], &[5, 80, 16, 17, 15, 333, 1]),
    (&[1], &[2049]),
    (&[1, 1, 1], &[4095, 4096, 4097]),
    (&[1, 1, 1], &[0, 33, 2500]),
    (&[1], &[16_385]),
    (&[1, 1, 1, 1, 1, 1], &[7, 3001, 60, 9000, 512, 1]),
    (&[4], &[2200]),
    (&[2, 1, 3], &[40, 5000, 17]),
    (&[1], &[131_072]),
    (&[1, 1], &[100_001, 3]),
    (&[2, 1], &[120_007, 2600]),
];

/// The type of variant number `variant` in a cell.
pub(super) fn dtype_of(variant: usize, cell: &Cell) -> &'static str {
    match (variant % 2, cell.dtype) {
        (0, dtype) => dtype,
        (_, "f16") => "bf16",
        _ => "f16",
    }
}

/// A case of an expression, which is number `variant` of its grid, in a cell: without group, page size, order and
/// lengths.
pub(super) fn check_cell(variant: usize, expr: &str, kernel: &str, cell: &Cell) -> Case {
    let mut case = Case::new(expr);
    kernel.clone_into(&mut case.kernel);
    dtype_of(variant, cell).clone_into(&mut case.dtype);
    case.head_dim = cell.head_dim;
    case.kv_layout = if cell.paged { LayoutKind::Paged } else { LayoutKind::Ragged };
    case
}

pub(super) fn page_layouts(case: &Case) -> &'static [(u32, Order)] {
    if case.kv_layout == LayoutKind::Paged { &PAGED } else { &RAGGED }
}

pub(super) fn lengths(kernel: &str) -> &'static [Lengths] {
    if kernel == "prefill" { &PREFILL } else { &DECODE }
}

/// The lengths of a kernel with at most so many keys in all.
pub(super) fn lengths_within(kernel: &str, keys: u32) -> Vec<&'static Lengths> {
    lengths(kernel).iter().filter(|(_, kv)| kv.iter().sum::<u32>() <= keys).collect()
}

pub(super) fn set_lens(case: &mut Case, (qo, kv): &Lengths) {
    case.qo_lens = Lens::List(qo.to_vec());
    case.kv_lens = Lens::List(kv.to_vec());
}

/// Every pair of values.
pub(super) fn all_pairs<T: Clone>(values: &[T]) -> Vec<(T, T)> {
    values.iter().enumerate().flat_map(|(i, a)| values[..i].iter().map(|b| (a.clone(), b.clone()))).collect()
}

pub(super) fn named(mut case: Case, grid: &str, number: usize) -> Case {
    case.name = Some(format!("{grid}-{number:03} {} {}", case.kernel, case.variant));
    case
}
