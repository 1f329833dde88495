//! The names of the structs of a composition.

use attn_core::lang::VariantDesc;

/// The struct of each part: one name for one descriptor, none of them a name of lang/lang.cuh.
pub(super) fn of_parts(parts: &[&VariantDesc]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (i, desc) in parts.iter().enumerate() {
        let same = parts[..i].iter().position(|d| std::ptr::eq(*d, *desc));
        names.push(match same {
            Some(j) => names[j].clone(),
            None => {
                let base = if reads_well(desc.type_name) { desc.type_name.to_owned() } else { format!("Part{i}") };
                free(&base, &names, 2)
            }
        });
    }
    names
}

/// The name of a combinator's struct, which no struct has yet: `Or1`.
pub(super) fn of_combinator(kind: &str, taken: &[String]) -> String {
    let mut n = 1;
    loop {
        let name = format!("{kind}{n}");
        if !is_taken(&name, taken) {
            return name;
        }
        n += 1;
    }
}

/// `base`, with a number from `n` on if that is taken.
fn free(base: &str, taken: &[String], mut n: u32) -> String {
    let mut name = base.to_owned();
    while is_taken(&name, taken) {
        name = format!("{base}{n}");
        n += 1;
    }
    name
}

fn is_taken(name: &str, taken: &[String]) -> bool {
    taken.iter().any(|t| t == name) || LANG_TYPES.contains(&name)
}

/// A name in the way of Rust's types, which no keyword and no macro has: `SoftCap`, `X`, not `int` or `NULL`.
fn reads_well(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
        && (name.len() == 1 || name.contains(|c: char| c.is_ascii_lowercase()))
}

/// Types of lang/lang.cuh, and of the text around a variant.
const LANG_TYPES: &[&str] = &[
    "Variant",
    "RowIndex",
    "LogitIndex",
    "KvIndex",
    "RowState",
    "QueryTile",
    "Tile",
    "TileClass",
    "Tri",
    "Bounds",
    "HeadRow",
    "Array",
    "Tensor0",
    "Tensor1",
    "Tensor2",
    "Tensor3",
    "Tensor4",
    "OutTensor1",
    "OutTensor2",
    "OutTensor3",
    "OutTensor4",
    "Element",
    "F16",
    "Bf16",
    "F8E4M3",
    "F8E5M2",
    "PackedBits",
    "TableRange",
    "Divisor",
    "Tuple2",
    "Tuple3",
    "Tuple4",
    "Pair",
    "Join",
    "JoinOf",
    "Plain",
    "PlainOf",
    "Unsigned",
    "UnsignedOf",
    "Wide",
    "WideOf",
    "R",
];
