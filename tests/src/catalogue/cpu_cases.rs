//! The batches that entries are run on with the CPU.

use attn_testing::{Case, LayoutKind, Lens, Order};

/// The query lengths and the KV lengths of the requests.
pub(super) type Lengths<'a> = (&'a [u32], &'a [u32]);

pub(super) fn case((qo, kv): Lengths<'_>, (qo_heads, kv_heads, head_dim): (u32, u32, u32), dtype: &str) -> Case {
    let mut case = Case::new("full");
    (case.qo_heads, case.kv_heads, case.head_dim) = (qo_heads, kv_heads, head_dim);
    (case.qo_lens, case.kv_lens) = (Lens::List(qo.to_vec()), Lens::List(kv.to_vec()));
    dtype.clone_into(&mut case.dtype);
    case
}

pub(super) fn paged(mut case: Case, page_size: u32, order: Order) -> Case {
    (case.kv_layout, case.page_size, case.page_order) = (LayoutKind::Paged, page_size, order);
    case
}

/// Cases in f32: chunked prefill and decode, ragged and paged, GQA groups, and lengths that cross tile and split
/// borders.
pub fn small() -> Vec<Case> {
    vec![
        case((&[5, 7, 1], &[9, 7, 13]), (4, 2, 16), "f32"),
        paged(case((&[33, 0, 2], &[70, 4, 31]), (4, 1, 8), "f32"), 3, Order::Hnd),
        paged(case((&[1, 1, 1], &[17, 5, 40]), (6, 2, 16), "f32"), 4, Order::Nhd),
        case((&[1, 2], &[2600, 3]), (2, 1, 8), "f32"),
        case((&[130], &[200]), (1, 1, 8), "f32"),
    ]
}

/// The cases of [`small`] whose requests have at most 200 keys: for entries with a tensor as large as the logits.
pub fn short() -> Vec<Case> {
    small().into_iter().filter(|case| case.kv_lens.to_vec().into_iter().all(|len| len <= 200)).collect()
}
