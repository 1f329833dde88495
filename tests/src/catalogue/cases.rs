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

/// Characters of the longest expression of a case file: tables are written out.
const LONGEST: usize = 40_000;

/// For a GPU: each entry in prefill and in decode, ragged and paged, in both types; smaller where tables would be large.
#[must_use]
pub fn gpu(entries: &[Entry]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (n, entry) in entries.iter().enumerate() {
        for kernel in ["prefill", "decode"] {
            let mut case = gpu_case(n, kernel, false);
            case.variant = (entry.make)(&Shape::of(&case)).expr;
            if case.variant.len() > LONGEST {
                case = gpu_case(n, kernel, true);
                case.variant = (entry.make)(&Shape::of(&case)).expr;
            }
            case.name = Some(format!("row {} {}, {kernel}", entry.row, entry.name));
            case.seed = cases.len() as u64;
            cases.push(case);
        }
    }
    cases
}

/// The batch of entry number `n`.
fn gpu_case(n: usize, kernel: &str, small: bool) -> Case {
    let lengths: Lengths<'_> = match (kernel, small) {
        ("prefill", false) => (&[70, 33], &[130, 33]),
        ("prefill", true) => (&[20, 9], &[70, 9]),
        (_, false) => (&[1, 1, 1], &[200, 65, 300]),
        (_, true) => (&[1, 1], &[90, 33]),
    };
    let prefill = kernel == "prefill";
    let heads = match (prefill, small) {
        (_, true) => (2, 1, 64),
        (true, _) => (4, 2, 64),
        (false, _) => (8, 2, 128),
    };
    let dtype = if prefill == n.is_multiple_of(2) { "bf16" } else { "f16" };
    let mut case = case(lengths, heads, dtype);
    // one of the two kernels reads pages
    if prefill == (n % 4 > 1) {
        case = if prefill { paged(case, 5, Order::Hnd) } else { paged(case, 16, Order::Nhd) };
    }
    kernel.clone_into(&mut case.kernel);
    case
}
