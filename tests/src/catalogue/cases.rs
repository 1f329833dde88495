//! The batches that entries are run on.

use attn::Variant;
use attn::expr::Node;
use attn::lang::Hook;
use attn_testing::{Case, LayoutKind, Lens, Order};

use super::{Entry, Shape, register};

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

/// For a GPU: each entry in prefill and in decode, ragged and paged, in both types, smaller where tables would be large; then, of
/// entries that are more than masks, the [`long`] cases.
///
/// # Panics
/// An entry that is none.
#[must_use]
pub fn gpu(entries: &[Entry]) -> Vec<Case> {
    register();
    let mut cases = Vec::new();
    for (n, entry) in entries.iter().enumerate() {
        for kernel in KERNELS {
            let mut case = gpu_case(n, kernel, false);
            case.variant = (entry.make)(&Shape::of(&case)).expr;
            if case.variant.len() > LONGEST {
                case = gpu_case(n, kernel, true);
                case.variant = (entry.make)(&Shape::of(&case)).expr;
            }
            case.name = Some(format!("row {} {}, {kernel}", entry.row, entry.name));
            cases.push(case);
        }
    }
    cases.extend(long(entries));
    (0..).zip(&mut cases).for_each(|(seed, case)| case.seed = seed);
    cases
}

const KERNELS: [&str; 2] = ["prefill", "decode"];

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

/// Few queries and keys so long that work is cut and merged: hooks that run after a merge, or whose states are merged, meet one here
/// alone. Of every entry that is more than masks side by side, in prefill and in decode, every other one replayed from a graph.
///
/// Tables of floats and bools that would be long are left out, for the check to make up.
///
/// # Panics
/// An entry that is none.
#[must_use]
pub fn long(entries: &[Entry]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (n, entry) in entries.iter().filter(|entry| is_more_than_masks(entry)).enumerate() {
        for kernel in KERNELS {
            let mut case = long_case(n, kernel, true);
            let (expr, complete) = made(entry, &case);
            case.variant = expr;
            // what does not grow with the batch is taken in a larger one
            if complete && case.variant.len() < LONG_LIST {
                case = long_case(n, kernel, false);
                case.variant = made(entry, &case).0;
            }
            assert!(case.variant.len() <= LONGEST, "row {} {} is too long for a line", entry.row, entry.name);
            case.name = Some(format!("row {} {}, {kernel} of long keys", entry.row, entry.name));
            cases.push(case);
        }
    }
    cases
}

/// Whether an entry has a hook beside its mask, or a combinator.
fn is_more_than_masks(entry: &Entry) -> bool {
    let expr = (entry.make)(&Shape::of(&small()[0])).expr;
    let variant = Variant::parse(&expr).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
    let mask = |node: &Node| {
        node.as_part().is_some_and(|part| part.desc().hooks.iter().all(|hook| hook.hook == Hook::LogitsMask))
    };
    !variant.nodes().iter().all(mask)
}

/// Head dim, element type, and pages by their size or none, with their order.
type Cell = (u32, &'static str, Option<u32>, Order);

const PREFILL_CELLS: [Cell; 6] = [
    (64, "bf16", None, Order::Nhd),
    (256, "f16", Some(16), Order::Hnd),
    (128, "f16", Some(5), Order::Hnd),
    (64, "f16", Some(16), Order::Nhd),
    (128, "bf16", None, Order::Hnd),
    (256, "bf16", Some(1), Order::Nhd),
];
const DECODE_CELLS: [Cell; 6] = [
    (128, "bf16", Some(16), Order::Nhd),
    (64, "f16", None, Order::Nhd),
    (256, "bf16", Some(5), Order::Hnd),
    (128, "f16", None, Order::Hnd),
    (64, "bf16", Some(16), Order::Hnd),
    (256, "f16", Some(16), Order::Nhd),
];

/// Query heads and KV heads.
const HEADS: [(u32, u32); 5] = [(4, 2), (8, 1), (6, 2), (2, 2), (3, 1)];

const PREFILL_LENGTHS: [Lengths<'static>; 5] = [
    (&[21, 3], &[3601, 1237]),
    (&[40], &[4099]),
    (&[1, 17, 0], &[2600, 3701, 70]),
    (&[70, 1], &[3777, 4801]),
    (&[33, 2], &[4500, 0]),
];
const DECODE_LENGTHS: [Lengths<'static>; 5] = [
    (&[1, 1, 1], &[3001, 517, 4999]),
    (&[1], &[4097]),
    (&[1, 1, 2], &[777, 5003, 1301]),
    (&[0, 1, 1, 1], &[9, 64, 3601, 1100]),
    (&[1, 1, 1, 1, 1], &[1, 4001, 2048, 3, 255]),
];

/// The long batch of entry number `n`: every cell meets all heads, in other lengths.
fn long_case(n: usize, kernel: &str, small: bool) -> Case {
    let prefill = kernel == "prefill";
    let (dim, dtype, page, order) = if prefill { PREFILL_CELLS[n % 6] } else { DECODE_CELLS[n % 6] };
    let (qo_heads, kv_heads) = HEADS[n % 5];
    let of = (n + n / 5) % 5;
    let lengths = match (prefill, small) {
        (true, true) => (&[3, 4][..], &[70, 4999][..]),
        (false, true) => (&[1, 1][..], &[33, 4999][..]),
        (true, false) => PREFILL_LENGTHS[of],
        (false, false) => DECODE_LENGTHS[of],
    };
    let mut case = case(lengths, (qo_heads, kv_heads, dim), dtype);
    case.page_order = order;
    if let Some(size) = page {
        case = paged(case, size, order);
    }
    case.graph = (n + n / 6).is_multiple_of(2) == prefill;
    kernel.clone_into(&mut case.kernel);
    case
}

/// The expression of an entry for a case, and whether nothing is left out of it.
fn made(entry: &Entry, case: &Case) -> (String, bool) {
    let expr = (entry.make)(&Shape::of(case)).expr;
    let short = without_long_tables(&expr);
    let complete = short.len() == expr.len();
    (short, complete)
}

/// Characters of a list that is long.
const LONG_LIST: usize = 2500;

/// An expression without its parameters that are long lists of floats, of bools, or of zeros to store to. Whole numbers stay: they
/// are lists of keys and the like, which cannot be any.
fn without_long_tables(expr: &str) -> String {
    let mut kept = String::new();
    let mut rest = expr;
    while let Some(at) = rest.find("=[") {
        let (name, list) = (&rest[..at], &rest[at + 1..]);
        let mut depth = 0;
        let closes = |c| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            depth == 0
        };
        let (list, after) = list.split_at(list.find(closes).expect("lists end") + 1);
        let whole = !list.contains(['.', 'e']) && list.contains(|c: char| c.is_ascii_digit() && c != '0');
        kept += name;
        rest = after;
        if list.len() <= LONG_LIST || whole {
            kept = kept + "=" + list;
            continue;
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        kept.truncate(kept.trim_end_matches(word).trim_end_matches([',', ' ']).len());
        if kept.ends_with('(') {
            rest = after.trim_start_matches([',', ' ']);
        }
    }
    // none is left
    (kept + rest).replace("()", "")
}

#[cfg(test)]
mod tests {
    use super::without_long_tables;

    #[test]
    fn long_tables_are_left_out() {
        let floats = format!("[[{}1.5]]", "0.25, ".repeat(500));
        let zeros = format!("[{}0]", "0,".repeat(2000));
        let whole = format!("[{}0]", "17,".repeat(2000));
        for (expr, want) in [
            (format!("causal + a(x=[1, 2.5], y={floats}) + b"), "causal + a(x=[1, 2.5]) + b".to_owned()),
            (format!("a(y={floats}, x=3) + b(y={floats})"), "a(x=3) + b".to_owned()),
            (format!("a(n=2, y={zeros}, z={floats})"), "a(n=2)".to_owned()),
            (format!("a(y={floats}, p={whole})"), format!("a(p={whole})")),
        ] {
            assert_eq!(without_long_tables(&expr), want);
        }
    }
}
