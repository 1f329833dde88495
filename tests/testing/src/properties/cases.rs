//! The cases that a variant is checked on.

use crate::{Case, LayoutKind, Lens, Order};

/// Queries and keys of each request.
type Lengths = (&'static [u32], &'static [u32]);

/// The layouts of a case: layout of keys and values, page size and order of a page, type of queries.
const LAYOUTS: [(LayoutKind, u32, Order, &str); 3] = [
    (LayoutKind::Ragged, 16, Order::Nhd, "bf16"),
    (LayoutKind::Paged, 16, Order::Nhd, "f16"),
    (LayoutKind::Paged, 5, Order::Hnd, "bf16"),
];

/// [`cases`] of each lengths in one layout, the next in the next.
pub(super) fn one_layout_each() -> impl Iterator<Item = Case> {
    let of_lens = |(at, _): &(usize, Case)| at % LAYOUTS.len() == at / LAYOUTS.len() % LAYOUTS.len();
    cases().into_iter().enumerate().filter(of_lens).map(|(_, case)| case)
}

/// A few cases with 8 query heads, 2 KV heads and a head dim of 64, without a variant.
pub(super) fn cases() -> Vec<Case> {
    let lens: [(&str, Lengths); 4] = [
        ("prefill", (&[17, 1, 70, 0], &[17, 300, 64, 9])),
        ("prefill", (&[129], &[2200])),
        ("decode", (&[1, 1, 1, 1], &[1, 0, 65, 2500])),
        ("decode", (&[2, 3], &[127, 40])),
    ];
    let mut cases = Vec::new();
    for (kernel, (qo, kv)) in lens {
        for (layout, page_size, order, dtype) in LAYOUTS {
            let mut case = Case::new("");
            kernel.clone_into(&mut case.kernel);
            dtype.clone_into(&mut case.dtype);
            (case.qo_heads, case.kv_heads, case.head_dim) = (8, 2, 64);
            (case.kv_layout, case.page_size, case.page_order) = (layout, page_size, order);
            (case.qo_lens, case.kv_lens) = (Lens::List(qo.to_vec()), Lens::List(kv.to_vec()));
            case.seed = cases.len() as u64;
            cases.push(case);
        }
    }
    cases
}
