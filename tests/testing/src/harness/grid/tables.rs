//! Masks over real tables, at lengths past one tile of queries and several tiles of keys.

use super::cells::{Lengths, set_lens};
use super::serving::layout_name;
use crate::{Case, LayoutKind, Order};

/// Expressions whose tensors hold a [`Table`](crate::Table); `QB` and `KB` stand for the blocks of the longest request.
const EXPRS: [&str; 15] = [
    "documents",
    "causal + documents",
    "causal_documents",
    "causal + document_spans",
    "remap(packed_documents, causal + sliding_window(window=200))",
    "image_spans",
    "flash_mask",
    "shared_prefix(documents=5)",
    "causal + global_window(window=90)",
    "multi_item",
    "prefix_lm",
    "tree(width=150)",
    "custom_mask(size=500000)",
    "causal + block_mask(q_block=16, kv_block=64, q_blocks=QB, kv_blocks=KB)",
    "remap(positions, causal + sliding_window(window=300))",
];

/// Queries and keys of each request: more than 64, 128 and 256 of each where a kernel takes so many.
const LENGTHS: [(&str, [Lengths; 2]); 3] = [
    ("prefill", [(&[300, 1, 70], &[700, 513, 70]), (&[513, 0, 130], &[513, 9, 1700])]),
    ("decode", [(&[1, 1, 1, 1], &[2500, 700, 65, 0]), (&[2, 1, 4], &[1300, 300, 257])]),
    ("mixed", [(&[150, 1, 1, 40], &[900, 2049, 300, 40]), (&[1, 260, 3], &[777, 260, 1500])]),
];

/// Types, head dims, layouts.
const CELLS: [(&str, Option<&str>, u32, LayoutKind, u32); 4] = [
    ("bf16", None, 128, LayoutKind::Paged, 16),
    ("f16", None, 64, LayoutKind::Ragged, 16),
    ("bf16", Some("e4m3"), 128, LayoutKind::BlockTable, 64),
    ("f16", None, 64, LayoutKind::Paged, 5),
];

/// The cases: every expression in every kernel, at two lengths of one type and head dim.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, expr) in EXPRS.into_iter().enumerate() {
        for (k, (kernel, lengths)) in LENGTHS.iter().enumerate() {
            for (round, lens) in lengths.iter().enumerate() {
                let (dtype, kv_dtype, head_dim, layout, page_size) = CELLS[(at + k) % CELLS.len()];
                let longest = |lens: &[u32], block: u32| lens.iter().max().map_or(1, |len| len.div_ceil(block).max(1));
                let blocks = [("QB", longest(lens.0, 16)), ("KB", longest(lens.1, 64))];
                let text = blocks.iter().fold(expr.to_owned(), |text, (name, n)| text.replace(name, &n.to_string()));
                let mut case = Case::new(text);
                (*kernel).clone_into(&mut case.kernel);
                dtype.clone_into(&mut case.dtype);
                case.kv_dtype = kv_dtype.map(str::to_owned);
                (case.head_dim, case.kv_layout, case.page_size) = (head_dim, layout, page_size);
                case.page_order = [Order::Nhd, Order::Hnd][(at + round) % 2];
                (case.kv_heads, case.qo_heads) = [(1, 4), (2, 2), (1, 3)][(at + k + round) % 3];
                set_lens(&mut case, lens);
                case.graph = round == 1;
                case.name = Some(format!("table, {}", layout_name(&case)));
                cases.push(case);
            }
        }
    }
    cases
}
