//! The names of the structs of a variant.

use attn_core::lang::VariantDesc;

/// The struct name of each part: one name per descriptor, and no name of lang/lang.cuh.
pub(super) fn of_parts(parts: &[&VariantDesc]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (i, desc) in parts.iter().enumerate() {
        let same = parts[..i].iter().position(|d| std::ptr::eq(*d, *desc));
        names.push(match same {
            Some(j) => names[j].clone(),
            None => {
                let base = if reads_well(desc.type_name) { desc.type_name.to_owned() } else { format!("Part{i}") };
                let numbered = (2..).map(|n| format!("{base}{n}"));
                unused(std::iter::once(base.clone()).chain(numbered), &names)
            }
        });
    }
    names
}

/// An unused name for a combinator's struct, such as `Or1`.
pub(super) fn of_combinator(kind: &str, taken: &[String]) -> String {
    unused((1..).map(|n| format!("{kind}{n}")), taken)
}

/// The first of some names that is not taken.
fn unused(mut names: impl Iterator<Item = String>, taken: &[String]) -> String {
    names.find(|name| !is_taken(name, taken)).unwrap_or_default()
}

fn is_taken(name: &str, taken: &[String]) -> bool {
    taken.iter().any(|t| t == name) || LANG_TYPES.contains(&name)
}

/// Whether a name is in upper camel case, so that it is no C++ keyword or macro: `SoftCap`, `X`, not `int` or `NULL`.
fn reads_well(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
        && (name.len() == 1 || name.contains(|c: char| c.is_ascii_lowercase()))
}

/// Types of lang/lang.cuh, and of the text around a variant.
const LANG_TYPES: &[&str] = &[
    "Variant",
    "KeyFormat",
    "ValueFormat",
    "RowIndex",
    "LogitIndex",
    "KvIndex",
    "RowState",
    "QueryTile",
    "Tile",
    "TileClass",
    "Tristate",
    "Bounds",
    "HeadRow",
    "Array",
    "Tensor",
    "Tensor0",
    "Tensor1",
    "Tensor2",
    "Tensor3",
    "Tensor4",
    "OutTensor1",
    "OutTensor2",
    "OutTensor3",
    "OutTensor4",
    "F16",
    "Bf16",
    "F8E4M3",
    "F8E5M2",
    "PackedBits",
    "TensorBounds",
    "Divisor",
    "Tuple2",
    "Tuple3",
    "Tuple4",
    "Pair",
    "Choose",
    "ChooseOf",
    "Join",
    "Plain",
    "PlainOf",
    "Unsigned",
    "Wide",
    "R",
];
