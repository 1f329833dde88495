//! The CUDA text of a variant: one struct for each kind of part, and `struct Variant`, which composes them.
//!
//! ```text
//! namespace lang {
//! struct SoftCap { float cap_; .. hooks .. };
//! struct Variant { SoftCap part0; static constexpr bool HAS_LOGITS_TRANSFORM = true; .. every hook .. };
//! }
//! using lang::Variant;
//! ```
//!
//! A combinator is a struct with its operands as members, and with the hooks that any operand has. `shape` is the tree
//! of parts and combinators, `compose` writes the structs, `combine` and `branches` write the bodies of their
//! functions, and `layout` computes their bytes.
//!
//! Over rows of KV formats `Variant` ends with the formats of keys and of values. All before them has the same bytes
//! without.
//!
//! `Variant` has every hook; one that no part writes is trivial. Kernel templates test the flags in `if constexpr`, but
//! outside of C++ templates a discarded statement is still compiled, so the member has to exist.

mod args;
mod branches;
mod combine;
mod compose;
mod declared;
mod device_type;
mod error;
mod hooks;
mod layout;
mod links;
mod member;
mod names;
mod part;
mod shape;
mod size;

use attn_core::expr::Variant;
use attn_core::lang::VariantDesc;
use attn_core::lang::kv_format::KvFormats;
use shape::Shape;

use super::templates;

pub use args::{Pointee, kv_format_args, kv_format_layout, part_args, part_layout, part_offsets};
pub use error::VariantError;
pub use layout::{struct_size, variant_args};
pub use part::kv_format_text;

/// Whether loops over logits are rolled, because the hooks on logits are long.
pub(super) fn has_long_hooks(variant: &Variant) -> bool {
    size::LongHooks::of(&Shape::of(variant)).rolled
}

/// The CUDA text of a variant: the structs of its parts, and `struct Variant`.
///
/// # Errors
/// Names inside a part that clash, and helpers that call themselves.
pub fn variant_source(variant: &Variant) -> Result<String, VariantError> {
    source(&Shape::of(variant), variant.kv_formats())
}

/// The CUDA text of a list of parts.
///
/// # Errors
/// The errors of [`variant_source`].
pub fn parts_source(parts: &[&VariantDesc]) -> Result<String, VariantError> {
    source(&Shape::All(parts.iter().map(|part| Shape::Part(part)).collect()), None)
}

/// The variant as an expression without parameters: the name of its kernels in messages.
pub fn outline(variant: &Variant) -> String {
    Shape::of(variant).to_string()
}

/// Whether the variant's mask gives a tile class. If not, plans are those of a variant without a mask.
pub fn has_tile_class(variant: &Variant) -> bool {
    Shape::of(variant).has_class()
}

fn source(shape: &Shape<'_>, formats: Option<&KvFormats>) -> Result<String, VariantError> {
    let structs = compose::text(shape, formats)?;
    let headers = templates::headers_of(&structs, formats.is_some())?;
    let mut text = headers;
    text += "\n#line 1 \"variant\"\nnamespace lang {\n\n";
    text += &structs;
    text += "\n}  // namespace lang\n\nusing lang::Variant;\n";
    Ok(text)
}
