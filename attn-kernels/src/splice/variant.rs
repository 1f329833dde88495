//! The text of a variant: one struct for each kind of part, and `struct Variant` that composes them.
//!
//! ```text
//! namespace lang {
//! struct SoftCap { float cap_; .. hooks .. };
//! struct Variant { SoftCap part0; static constexpr bool HAS_LOGITS_TRANSFORM = true; .. every hook .. };
//! }
//! using lang::Variant;
//! ```
//!
//! Every hook is a member of `Variant`, trivial where no part wrote it: templates ask the flags in `if constexpr`, and
//! outside of templates a discarded statement is still checked.

mod args;
mod compose;
mod member;
mod part;

use attn_core::{expr::Variant, lang::VariantDesc};

pub use args::{Pointee, part_args, part_layout, part_offsets, struct_size, variant_args};

/// Parts whose text cannot stand in one struct.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariantError {
    /// Two constants or helpers of one name, from different places.
    #[error("`{variant}` uses two different constants or helpers called `{name}`; rename one of them")]
    Clash {
        /// The part.
        variant: String,
        /// The name, as the text has it.
        name: String,
    },
    /// A helper that calls itself, through others.
    #[error(
        "the helper `{name}` of `{variant}` calls itself through others, which a GPU cannot do; use a bounded `for`"
    )]
    Recursion {
        /// The part.
        variant: String,
        /// The helper, as the text has it.
        name: String,
    },
}

/// The text of a composition: structs of the parts, and `struct Variant`.
///
/// # Errors
/// Names inside a part that clash, and helpers that call themselves.
pub fn variant_source(variant: &Variant) -> Result<String, VariantError> {
    let parts: Vec<&VariantDesc> = variant.parts().map(|part| part.desc()).collect();
    parts_source(&parts)
}

/// The same, of descriptors.
///
/// # Errors
/// As [`variant_source`].
pub fn parts_source(parts: &[&VariantDesc]) -> Result<String, VariantError> {
    let mut text = String::from("\n#line 1 \"variant\"\nnamespace lang {\n\n");
    let names = struct_names(parts);
    for (i, (desc, name)) in parts.iter().zip(&names).enumerate() {
        if !names[..i].contains(name) {
            text += &part::struct_text(desc, name)?;
        }
    }
    text += &compose::struct_text(parts, &names);
    text += "\n}  // namespace lang\n\nusing lang::Variant;\n";
    Ok(text)
}

/// The struct of each part: one name for one descriptor, none of them a name of lang.cuh.
fn struct_names(parts: &[&VariantDesc]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (i, desc) in parts.iter().enumerate() {
        let same = parts[..i].iter().position(|d| std::ptr::eq(*d, *desc));
        names.push(match same {
            Some(j) => names[j].clone(),
            None => {
                let base = if reads_well(desc.type_name) { desc.type_name.to_owned() } else { format!("Part{i}") };
                let taken = |name: &String| names.contains(name) || LANG_TYPES.contains(&name.as_str());
                let mut name = base.clone();
                let mut n = 2;
                while taken(&name) {
                    name = format!("{base}{n}");
                    n += 1;
                }
                name
            }
        });
    }
    names
}

/// A name in the way of Rust's types, which no keyword and no macro has: `SoftCap`, `X`, not `int` or `NULL`.
fn reads_well(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
        && (name.len() == 1 || name.contains(|c: char| c.is_ascii_lowercase()))
}

/// Types of lang.cuh, and of the text around a variant.
const LANG_TYPES: &[&str] = &[
    "Variant",
    "RowIndex",
    "LogitIndex",
    "KvIndex",
    "RowState",
    "Tile",
    "TileClass",
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
