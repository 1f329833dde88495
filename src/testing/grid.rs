//! The grids that every change of a kernel is checked on: a covering design, not a full product.
//!
//! Every variant runs in every kernel, and in each in six *cells* (dtype, head dim, layout) that cover all pairs of
//! these; group size, page size, page order and lengths are then chosen so that as many pairs of values as possible
//! meet somewhere. Two cases share a cell, which keeps the number of cubins at half the number of cases. Caches of 8 bits,
//! scales, loud queries and a bias of pairs follow at the end.

mod dims;
mod loud;
mod pairs;
mod scaled;
mod serving;

pub use serving::serving;

pub use dims::dims;

use std::collections::HashSet;

use super::random::Random;
use super::{Case, LayoutKind, Lens, Order};

/// Expressions of the check grid. Tensors that must be given are made up from the seed.
const VARIANTS: [&str; 23] = [
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

/// dtype, head dim, paged, group class; each line is a cell, and its complement (other dtype) the cell of odd variants.
const CELLS: [(&str, u32, bool, usize); 6] = [
    ("f16", 64, false, 0),
    ("bf16", 64, true, 1),
    ("f16", 128, true, 2),
    ("bf16", 128, false, 0),
    ("f16", 256, false, 1),
    ("bf16", 256, true, 2),
];

/// Group sizes by class: decode kernels have tiles of 1, 4 and 8 rows.
const GROUPS: [&[u32]; 3] = [&[1], &[3, 4], &[7, 8]];

/// Page sizes and orders; ragged tensors have an order too.
const PAGED: [(u32, Order); 6] =
    [(1, Order::Nhd), (1, Order::Hnd), (5, Order::Nhd), (5, Order::Hnd), (16, Order::Nhd), (16, Order::Hnd)];
const RAGGED: [(u32, Order); 2] = [(16, Order::Nhd), (16, Order::Hnd)];

/// Queries and keys of each request.
type Lengths = (&'static [u32], &'static [u32]);

/// Prefill: tile edges, odd lengths, chunks behind a long context, empty requests, more queries than keys.
const PREFILL: [Lengths; 18] = [
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
const DECODE: [Lengths; 18] = [
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

/// The check grid: at least 400 cases.
#[must_use]
pub fn check() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut seen = HashSet::new();
    let mut random = Random::new(2024, 0);
    for round in 0..2 {
        for (at, variant) in VARIANTS.iter().enumerate() {
            for kernel in ["prefill", "decode"] {
                for cell in 0..CELLS.len() {
                    let wanted = Wanted { at, variant, kernel, cell, round };
                    // of some random ways to fill in the rest, the one with most pairs that are new
                    let tries = (0..48).map(|_| wanted.choose(&mut random));
                    let fresh = |pairs: &[_]| pairs.iter().filter(|p| !seen.contains(*p)).count();
                    let best =
                        tries.map(|pick| (pick.pairs(&wanted), pick)).rev().max_by_key(|(pairs, _)| fresh(pairs));
                    if let Some((pairs, pick)) = best {
                        seen.extend(pairs);
                        cases.push(pick.case(&wanted, cases.len()));
                    }
                }
            }
        }
    }
    cases.extend(scaled::check(cases.len()));
    cases.extend(loud::check(cases.len()));
    cases.extend(pairs::check(cases.len()));
    cases
}

/// The small grid, for tools that slow a kernel down a hundredfold: every variant in both kernels, short lengths;
/// a few caches of 8 bits.
#[must_use]
pub fn small() -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, variant) in VARIANTS.iter().enumerate() {
        for (k, kernel) in ["prefill", "decode"].into_iter().enumerate() {
            let mut case = check_cell(at, variant, kernel, (at + 3 * k) % CELLS.len());
            let group = GROUPS[CELLS[(at + 3 * k) % CELLS.len()].3];
            case.kv_heads = 2;
            case.qo_heads = 2 * group[at % group.len()];
            let (page_size, order) = places(&case)[(at + k) % places(&case).len()];
            (case.page_size, case.page_order) = (page_size, order);
            let short = |lens: &&Lengths| lens.1.iter().sum::<u32>() <= 1100;
            let lens: Vec<&Lengths> = lengths(kernel).iter().filter(short).collect();
            set_lens(&mut case, lens[at % lens.len()]);
            case.seed = at as u64;
            cases.push(named(case, "small", at * 2 + k));
        }
    }
    cases.extend(scaled::small(cases.len()));
    for case in serving::small() {
        let number = cases.len();
        cases.push(named(Case { seed: number as u64, ..case }, "small", number));
    }
    cases.extend(loud::small(cases.len()));
    cases.extend(pairs::small(cases.len()));
    cases
}

/// Every expression in both kernels, each in three cells: ragged and paged, both types, every head dim, groups, odd lengths. Of all
/// expressions together, every cell and every list of lengths of up to 5000 keys.
///
/// Tensors that an expression must be given are made up from the seed; those that it gives must fit the case's heads and lengths.
#[must_use]
pub fn over<S: AsRef<str>>(exprs: &[S]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (at, expr) in exprs.iter().enumerate() {
        for (k, kernel) in ["prefill", "decode"].into_iter().enumerate() {
            let lens: Vec<&Lengths> = lengths(kernel).iter().filter(|l| l.1.iter().sum::<u32>() <= 5000).collect();
            for round in 0..3 {
                // any three neighbours have both types, and paged and ragged keys
                let cell = (at + k + round) % CELLS.len();
                let mut case = check_cell(at, expr.as_ref(), kernel, cell);
                let (groups, places) = (GROUPS[CELLS[cell].3], places(&case));
                let group = groups[(at + round) % groups.len()];
                case.kv_heads = if group < 7 { 2 } else { 1 };
                case.qo_heads = group * case.kv_heads;
                (case.page_size, case.page_order) = places[(at + round) % places.len()];
                set_lens(&mut case, lens[(3 * at + round) % lens.len()]);
                case.seed = cases.len() as u64;
                case.graph = round == 1;
                cases.push(named(case, "over", at * 6 + k * 3 + round));
            }
        }
    }
    cases
}

/// Cases for comparing bits ([`same`](super::same())): every kernel under some variants, each with another type and head dim.
#[must_use]
pub fn same() -> Vec<Case> {
    let lens: [(&str, Lengths); 3] = [
        ("prefill", (&[17, 1, 70, 0, 5], &[300, 33, 2100, 9, 0])),
        ("decode", (&[1, 1, 0, 1, 1], &[2500, 65, 9, 1, 700])),
        ("mixed", (&[64, 1, 1, 0, 3], &[300, 2100, 16, 9, 33])),
    ];
    let types = [("f16", None, 64), ("bf16", Some("e4m3"), 128), ("bf16", None, 128), ("f16", None, 256)];
    let variants = [
        "full",
        "causal + rope",
        "causal + sliding_window(window=100) + soft_cap(cap=30)",
        "causal + alibi + sink",
        "value_norm",
        "causal + qk_norm + rope",
        "causal + custom_mask(size=150000)",
    ];
    let mut cases = Vec::new();
    for (kernel, lens) in &lens {
        for (at, variant) in variants.into_iter().enumerate() {
            let (dtype, kv_dtype, head_dim) = types[at % types.len()];
            let mut case = Case::new(variant);
            (*kernel).clone_into(&mut case.kernel);
            dtype.clone_into(&mut case.dtype);
            case.kv_dtype = kv_dtype.map(str::to_owned);
            (case.head_dim, case.kv_heads, case.qo_heads) = (head_dim, 2, 2 * [1, 4, 3, 8][at % 4]);
            set_lens(&mut case, lens);
            case.seed = cases.len() as u64;
            cases.push(named(case, "same", at));
        }
    }
    cases
}

/// A few cases with 8 query heads, 2 KV heads and a head dim of 64, whose variant is left to the caller.
pub(super) fn of_variant() -> Vec<Case> {
    let lens: [(&str, Lengths); 4] = [
        ("prefill", (&[17, 1, 70, 0], &[17, 300, 64, 9])),
        ("prefill", (&[129], &[2200])),
        ("decode", (&[1, 1, 1, 1], &[1, 0, 65, 2500])),
        ("decode", (&[2, 3], &[127, 40])),
    ];
    let mut cases = Vec::new();
    for (kernel, lens) in &lens {
        for (layout, (page_size, order), dtype) in [
            (LayoutKind::Ragged, (16, Order::Nhd), "bf16"),
            (LayoutKind::Paged, (16, Order::Nhd), "f16"),
            (LayoutKind::Paged, (5, Order::Hnd), "bf16"),
        ] {
            let mut case = Case::new("");
            (*kernel).clone_into(&mut case.kernel);
            dtype.clone_into(&mut case.dtype);
            (case.qo_heads, case.kv_heads, case.head_dim) = (8, 2, 64);
            (case.kv_layout, case.page_size, case.page_order) = (layout, page_size, order);
            set_lens(&mut case, lens);
            case.seed = cases.len() as u64;
            cases.push(case);
        }
    }
    cases
}

/// What is fixed of a case before the rest is chosen.
struct Wanted {
    at: usize,
    variant: &'static str,
    kernel: &'static str,
    cell: usize,
    round: usize,
}

/// What is chosen: indices into the tables above.
struct Pick {
    group: u32,
    place: (u32, Order),
    lens: usize,
}

impl Wanted {
    fn choose(&self, random: &mut Random) -> Pick {
        let case = check_cell(self.at, self.variant, self.kernel, self.cell);
        let groups = GROUPS[CELLS[self.cell].3];
        let places = places(&case);
        let lens = lengths(self.kernel);
        Pick {
            // not at random: both groups of a class in every variant
            group: groups[(self.round + self.cell) % groups.len()],
            place: places[random.below(places.len() as u64) as usize],
            lens: random.below(lens.len() as u64) as usize,
        }
    }
}

impl Pick {
    /// Every pair of values of this case.
    fn pairs(&self, wanted: &Wanted) -> Vec<(String, String)> {
        let (_, dim, paged, _) = CELLS[wanted.cell];
        let dtype = dtype_of(wanted.at, wanted.cell);
        let values = [
            wanted.variant.to_owned(),
            format!("{} lengths {}", wanted.kernel, self.lens),
            format!("group {}", self.group),
            format!("paged {paged} {:?}", self.place),
            format!("{dtype} {dim}"),
            wanted.kernel.to_owned(),
        ];
        let pairs =
            values.iter().enumerate().flat_map(|(i, a)| values[..i].iter().map(move |b| (a.clone(), b.clone())));
        pairs.collect()
    }

    fn case(&self, wanted: &Wanted, number: usize) -> Case {
        let mut case = check_cell(wanted.at, wanted.variant, wanted.kernel, wanted.cell);
        let lens = &lengths(wanted.kernel)[self.lens];
        let long = lens.1.iter().any(|&len| len > 10_000);
        // the reference is slow: few heads where there are many keys
        case.kv_heads = if long { 1 } else { 1 + u32::from(self.group < 7) };
        case.qo_heads = self.group * case.kv_heads;
        (case.page_size, case.page_order) = self.place;
        set_lens(&mut case, lens);
        case.seed = number as u64;
        case.graph = number.is_multiple_of(3);
        // Every other case with a cap has logits that reach it. Not behind a rotation in prefill: rotated rows are rounded
        // to f16, which logits of that size show.
        let capped = wanted.variant.contains("soft_cap") && !wanted.variant.contains("rope");
        if capped && (wanted.cell + wanted.round).is_multiple_of(2) {
            case.q_std = Some(12.0);
        }
        named(case, "check", number)
    }
}

fn dtype_of(at: usize, cell: usize) -> &'static str {
    let dtype = CELLS[cell].0;
    match (at % 2, dtype) {
        (0, _) => dtype,
        (_, "f16") => "bf16",
        _ => "f16",
    }
}

/// A case with all but group, places and lengths.
fn check_cell(at: usize, variant: &str, kernel: &str, cell: usize) -> Case {
    let (_, dim, paged, _) = CELLS[cell];
    let mut case = Case::new(variant);
    kernel.clone_into(&mut case.kernel);
    dtype_of(at, cell).clone_into(&mut case.dtype);
    case.head_dim = dim;
    case.kv_layout = if paged { LayoutKind::Paged } else { LayoutKind::Ragged };
    case
}

fn places(case: &Case) -> &'static [(u32, Order)] {
    if case.kv_layout == LayoutKind::Paged { &PAGED } else { &RAGGED }
}

fn lengths(kernel: &str) -> &'static [Lengths] {
    if kernel == "prefill" { &PREFILL } else { &DECODE }
}

fn set_lens(case: &mut Case, (qo, kv): &Lengths) {
    case.qo_lens = Lens::List(qo.to_vec());
    case.kv_lens = Lens::List(kv.to_vec());
}

fn named(mut case: Case, grid: &str, number: usize) -> Case {
    case.name = Some(format!("{grid}-{number:03} {} {}", case.kernel, case.variant));
    case
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{CELLS, LayoutKind, Order, VARIANTS, check, over, small};

    #[test]
    fn the_check_grid_holds_what_it_promises() {
        let cases = check();
        assert!(cases.len() >= 400, "{}", cases.len());
        let long = cases.iter().filter(|c| c.kv_lens.to_vec().iter().any(|&k| k > 2048)).count();
        assert!(4 * long >= cases.len(), "{long} of {} have more than 2048 keys", cases.len());
        for kernel in ["prefill", "decode"] {
            for dtype in ["f16", "bf16"] {
                for dim in [64, 128, 256] {
                    for (page, layout) in [
                        (1, LayoutKind::Paged),
                        (5, LayoutKind::Paged),
                        (16, LayoutKind::Paged),
                        (16, LayoutKind::Ragged),
                    ] {
                        let there = cases.iter().any(|c| {
                            c.kernel == kernel
                                && c.dtype == dtype
                                && c.head_dim == dim
                                && c.kv_layout == layout
                                && c.page_size == page
                        });
                        assert!(there, "no {kernel} {dtype} {dim} {layout:?} {page}");
                    }
                }
            }
            for variant in VARIANTS {
                for group in [1, 3, 4, 7, 8] {
                    let there = cases
                        .iter()
                        .any(|c| c.kernel == kernel && c.variant == variant && c.qo_heads / c.kv_heads == group);
                    assert!(there, "no {kernel} {variant} with group {group}");
                }
            }
        }
        assert!(cases.iter().any(|c| c.page_order == Order::Hnd && c.kv_layout == LayoutKind::Paged));
        let names: HashSet<_> = cases.iter().map(|c| c.title()).collect();
        assert_eq!(names.len(), cases.len());
        let dear = cases.iter().map(super::Case::check_cost).max();
        assert!(dear < Some(3_000_000_000), "{dear:?}");
    }

    #[test]
    fn the_small_grid_is_small() {
        let cases = small();
        assert!(cases.len() >= 40 && cases.iter().map(super::Case::check_cost).sum::<u64>() < 1_000_000_000);
    }

    #[test]
    fn a_grid_over_expressions_has_each_in_every_kind_of_place() {
        let exprs = ["full", "causal", "alibi", "rope", "sink", "qk_norm", "causal + sink"];
        let cases = over(&exprs);
        assert_eq!(cases.len(), 6 * exprs.len());
        for expr in exprs {
            for kernel in ["prefill", "decode"] {
                let of = |case: &&super::Case| case.variant == expr && case.kernel == kernel;
                let places: HashSet<_> = cases.iter().filter(of).map(|case| case.kv_layout).collect();
                let dtypes: HashSet<_> = cases.iter().filter(of).map(|case| case.dtype.clone()).collect();
                assert_eq!((places.len(), dtypes.len()), (2, 2), "{expr} in {kernel}");
            }
        }
        let cells: HashSet<_> = cases.iter().map(|c| (c.head_dim, c.kv_layout, c.qo_heads / c.kv_heads)).collect();
        assert!(cells.len() > CELLS.len(), "{cells:?}");
        let names: HashSet<_> = cases.iter().map(super::Case::title).collect();
        assert_eq!(names.len(), cases.len());
    }

    #[test]
    fn the_committed_files_are_these_grids() {
        for (file, cases) in [("check", check()), ("small", small()), ("serving", super::serving())] {
            let path = format!("{}/benches/cases/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).expect("a committed case file");
            let there = super::Case::parse_lines(&text).expect("cases");
            assert!(there == cases, "{path} is not the grid; write it anew: attn check --grid {file} --list > {path}");
        }
    }
}
