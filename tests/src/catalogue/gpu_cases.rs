//! The batches that entries are run on with a GPU.

use attn_core::Variant;
use attn_core::expr::Node;
use attn_core::lang::Hook;
use attn_testing::{Case, Order};

use super::cpu_cases::{Lengths, case, paged, small};
use super::{Entry, Shape, register};

/// The longest expression that a case file may hold, in characters. Expressions contain their tensors.
const LONGEST: usize = 40_000;

/// All GPU cases: each entry in prefill and in decode, then the [`long`] cases.
///
/// Entries alternate between ragged and paged, and between f16 and bf16. Entries with large tensors get a smaller
/// batch.
///
/// # Panics
/// The expression of an entry is invalid.
pub fn all(entries: &[Entry]) -> Vec<Case> {
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
    // of prefill and decode, one is paged
    if prefill == (n % 4 > 1) {
        case = if prefill { paged(case, 5, Order::Hnd) } else { paged(case, 16, Order::Nhd) };
    }
    kernel.clone_into(&mut case.kernel);
    case
}

/// Cases with few queries and so many keys that the keys are split and partial results are merged.
///
/// Only these cases run hooks after a merge and merge states of custom normalisers. Every entry that has more than
/// masks gets one in prefill and one in decode; half of them are replayed from a CUDA graph. Long tensors of floats and
/// bools are left out of the expression: the check fills them with random values.
///
/// # Panics
/// The expression of an entry is invalid.
pub fn long(entries: &[Entry]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (n, entry) in entries.iter().filter(|entry| is_more_than_masks(entry)).enumerate() {
        for kernel in KERNELS {
            let mut case = long_case(n, kernel, true);
            let (expr, complete) = short_expr(entry, &case);
            case.variant = expr;
            // an expression that does not grow with the batch gets a larger batch
            if complete && case.variant.len() < LONG_LIST {
                case = long_case(n, kernel, false);
                case.variant = short_expr(entry, &case).0;
            }
            assert!(case.variant.len() <= LONGEST, "row {} {} has too long an expression", entry.row, entry.name);
            case.name = Some(format!("row {} {}, {kernel} of long keys", entry.row, entry.name));
            cases.push(case);
        }
    }
    cases
}

/// Whether an entry has a combinator, or a hook other than a mask.
fn is_more_than_masks(entry: &Entry) -> bool {
    let expr = (entry.make)(&Shape::of(&small()[0])).expr;
    let variant = Variant::parse(&expr).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
    let mask = |node: &Node| {
        node.as_part().is_some_and(|part| part.desc().hooks.iter().all(|hook| hook.hook == Hook::LogitsMask))
    };
    !variant.nodes().iter().all(mask)
}

/// Head dim, element type, page size (`None`: ragged) and page order.
type KernelShape = (u32, &'static str, Option<u32>, Order);

const PREFILL_SHAPES: [KernelShape; 6] = [
    (64, "bf16", None, Order::Nhd),
    (256, "f16", Some(16), Order::Hnd),
    (128, "f16", Some(5), Order::Hnd),
    (64, "f16", Some(16), Order::Nhd),
    (128, "bf16", None, Order::Hnd),
    (256, "bf16", Some(1), Order::Nhd),
];
const DECODE_SHAPES: [KernelShape; 6] = [
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

/// The long batch of entry number `n`. Over all `n`, each kernel shape is combined with all head counts and lengths.
fn long_case(n: usize, kernel: &str, small: bool) -> Case {
    let prefill = kernel == "prefill";
    let (dim, dtype, page, order) = if prefill { PREFILL_SHAPES[n % 6] } else { DECODE_SHAPES[n % 6] };
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

/// The expression of an entry for a case without its long tensors, and whether it is complete.
fn short_expr(entry: &Entry, case: &Case) -> (String, bool) {
    let expr = (entry.make)(&Shape::of(case)).expr;
    let short = without_long_tables(&expr);
    let complete = short.len() == expr.len();
    (short, complete)
}

/// The length above which a list is left out of an expression, in characters.
const LONG_LIST: usize = 2500;

/// An expression without its long lists of floats, bools and zeros (output tensors).
///
/// Lists of integers stay: they are lists of keys and the like, for which random values would be invalid.
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
    // a part without parameters has no parentheses
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
