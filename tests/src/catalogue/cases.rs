//! The batches that entries are run on.

use facade::testing::{Case, LayoutKind, Lens, Order};

use super::{Entry, Shape};

/// Queries of each request, keys of each request.
type Lengths<'a> = (&'a [u32], &'a [u32]);

fn case((qo, kv): Lengths<'_>, (qo_heads, kv_heads, head_dim): (u32, u32, u32), dtype: &str) -> Case {
    let mut case = Case::new("full");
    (case.qo_heads, case.kv_heads, case.head_dim) = (qo_heads, kv_heads, head_dim);
    (case.qo_lens, case.kv_lens) = (Lens::List(qo.to_vec()), Lens::List(kv.to_vec()));
    dtype.clone_into(&mut case.dtype);
    case
}

fn paged(mut case: Case, page_size: u32, order: Order) -> Case {
    (case.kv_layout, case.page_size, case.page_order) = (LayoutKind::Paged, page_size, order);
    case
}

/// For the CPU, in f32: chunked prefill, decode, ragged and paged, groups of query heads; tiles and splits that matter.
#[must_use]
pub fn small() -> Vec<Case> {
    vec![
        case((&[5, 7, 1], &[9, 7, 13]), (4, 2, 16), "f32"),
        paged(case((&[33, 0, 2], &[70, 4, 31]), (4, 1, 8), "f32"), 3, Order::Hnd),
        paged(case((&[1, 1, 1], &[17, 5, 40]), (6, 2, 16), "f32"), 4, Order::Nhd),
        case((&[1, 2], &[2600, 3]), (2, 1, 8), "f32"),
        case((&[130], &[200]), (1, 1, 8), "f32"),
    ]
}

/// For a GPU: each entry in prefill and in decode, ragged and paged, in both types.
#[must_use]
pub fn gpu(entries: &[Entry]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (n, entry) in entries.iter().enumerate() {
        let (dtype, other) = if n % 2 == 0 { ("bf16", "f16") } else { ("f16", "bf16") };
        let prefill = case((&[70, 33], &[130, 33]), (4, 2, 64), dtype);
        let decode = case((&[1, 1, 1], &[200, 65, 300]), (8, 2, 128), other);
        let (prefill, decode) = match n % 4 {
            0 | 1 => (prefill, paged(decode, 16, Order::Nhd)),
            _ => (paged(prefill, 5, Order::Hnd), decode),
        };
        for (kernel, mut case) in [("prefill", prefill), ("decode", decode)] {
            kernel.clone_into(&mut case.kernel);
            case.variant = (entry.make)(&Shape::of(&case)).expr;
            case.name = Some(format!("row {} {}, {kernel}", entry.row, entry.name));
            case.seed = cases.len() as u64;
            cases.push(case);
        }
    }
    cases
}
