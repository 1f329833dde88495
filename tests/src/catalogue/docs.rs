//! Generates `book/src/catalogue.md` from the entries.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use attn_core::Variant;
use attn_core::lang::{Hook, Normalizer};

use super::mask_file::{Counts, masks};
use super::{Entry, Shape, cpu_cases, entries, register};

/// The rows without an entry, with the reason.
const WITHOUT: [(u32, &str, &str); 10] = [
    (49, "entmax, sparsemax", "not yet: the threshold of a row takes several passes over its keys"),
    (50, "stick-breaking", "not yet: an ordered scan along the keys"),
    (51, "CoPE", "not yet: an ordered scan along the keys"),
    (52, "selective attention", "no: what a query sees depends on earlier queries"),
    (53, "talking heads, multi-token attention", "no: weights of several heads or neighbours are mixed"),
    (70, "MQA, GQA, MHA", "in the kernels: every entry runs with groups of query heads"),
    (71, "paged, ragged", "in the kernels: every entry runs in both"),
    (75, "linear attention", "no: not a softmax over keys, another kernel"),
    (76, "skip-softmax", "no: what is skipped depends on the size and the order of tiles ([why](formulas.md))"),
    (77, "DeepSeek-V4: window and compressed keys", "two runs, merged, beside this table ([how](formulas.md))"),
];

/// The text of the page.
///
/// # Panics
/// An entry or a mask is invalid.
pub fn page() -> String {
    register();
    let mut text = String::from(HEAD);
    let entries = entries();
    let rows: BTreeSet<u32> = entries.iter().map(|entry| entry.row).chain(WITHOUT.map(|without| without.0)).collect();
    let counts: Vec<(u32, Counts)> =
        masks().iter().map(|mask| (mask.row, mask.count().expect("no class is wrong"))).collect();
    for row in rows {
        if let Some((_, name, why)) = WITHOUT.iter().find(|without| without.0 == row) {
            let _ = writeln!(text, "| {row} | {name} | {why} | | | |");
        }
        for (n, entry) in entries.iter().filter(|entry| entry.row == row).enumerate() {
            // tile counts belong to the row: its first entry shows them
            let of_row = counts.iter().filter(|(of, _)| *of == row && n == 0).map(|(_, counts)| *counts);
            let of_row: Counts = of_row.sum();
            text += &line(entry, &if of_row.tiles > 0 { of_row.to_string() } else { String::new() });
        }
    }
    let supported: BTreeSet<u32> = entries.iter().map(|entry| entry.row).collect();
    let total: Counts = counts.iter().map(|(_, counts)| *counts).sum();
    let _ = write!(
        text,
        "\n{} rows are supported, by {} entries. Of the tiles of all masks together, {} of {} empty ones and {} of \
         {} full\nones are found ({} and {} when a tile is classified once); no class is wrong.\n",
        supported.len(),
        entries.len(),
        total.empty_found,
        total.empty,
        total.full_found,
        total.full,
        total.empty_at_once,
        total.full_at_once,
    );
    text
}

const HEAD: &str = "# The catalogue

Attention variants of public models, papers and libraries, each written with the public language alone. Each entry is
compared three times: on the CPU with a formula in plain f64 loops (`tests/src/catalogue`), its generated text with its
Rust by a host compiler, and its kernels with the reference on a GPU (`attn-catalogue cases` writes the cases,
`attn-catalogue check` runs them). Requests are short, and for entries that are more than masks also long, so that their
keys are split and merged.

*Tiles* counts, for masks, the empty and the full tiles that the derived classes find: 2048 queries and keys, tiles of
128 x 128, over the masks in `tests/data/masks.jsonl`, compared element by element. Kernels classify a tile once;
plans and the CPU backend classify its quarters too. *By* is stock where all parts are stock variants, or names the
parts that are written beside the test. [Formulas of recent models](formulas.md) says where the newest come from, and
what of them is left out.

`UPDATE_DOCS=1 cargo test -p attn-tests --test variants docs::` writes this page.

| row | variant | expression | hooks | tiles | by |
|---|---|---|---|---|---|
";

fn line(entry: &Entry, tiles: &str) -> String {
    let case = cpu_cases::small().swap_remove(0);
    let expr = (entry.make)(&Shape::of(&case)).expr;
    let variant = Variant::parse(&expr).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
    let hooks = Hook::ALL.into_iter().filter(|&hook| variant.parts().any(|part| part.desc().has(hook)));
    let mut hooks: Vec<String> = hooks.map(|hook| format!("`{}`", hook.method())).collect();
    if variant.normalizer() != Normalizer::Softmax {
        hooks.push(format!("`{:?}`", variant.normalizer()));
    }
    let stock: BTreeSet<&str> = attn_variants::variants().iter().map(|desc| desc.name).collect();
    let names: BTreeSet<&str> = variant.parts().map(|part| part.desc().name).collect();
    let own: Vec<String> = names.difference(&stock).map(|name| format!("`{name}`")).collect();
    let by = if own.is_empty() { "stock".to_owned() } else { format!("test: {}", own.join(", ")) };
    let expr = shortened(&expr).replace('|', "\\|");
    format!("| {} | {} | `{expr}` | {} | {tiles} | {by} |\n", entry.row, entry.name, hooks.join(", "))
}

/// An expression with each list replaced by `[..]`.
fn shortened(expr: &str) -> String {
    let mut depth = 0;
    let mut short = String::new();
    for c in expr.chars() {
        match c {
            '[' => {
                depth += 1;
                short += if depth == 1 { "[..]" } else { "" };
            }
            ']' => depth -= 1,
            _ if depth == 0 => short.push(c),
            _ => {}
        }
    }
    short
}
