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
//! A combinator is a struct with its operands as members, and the hooks that something in it has. `shape` is the tree, `compose` writes the
//! structs, `combine` and `branches` what their functions do, `layout` their bytes.
//!
//! Every hook is a member of `Variant`, trivial where no part wrote it: templates ask the flags in `if constexpr`, and
//! outside of templates a discarded statement is still checked.

mod args;
mod branches;
mod combine;
mod compose;
mod device_type;
mod hooks;
mod layout;
mod member;
mod names;
mod part;
mod shape;

use attn_core::{expr::Variant, lang::VariantDesc};
use shape::Shape;

pub use args::{Pointee, part_args, part_layout, part_offsets};
pub use layout::{struct_size, variant_args};

/// Parts whose text cannot stand in one struct.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariantError {
    /// Two constants, helpers or types of one name, from different places.
    #[error("`{variant}` uses two different constants, helpers or types called `{name}`; rename one of them")]
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
    /// A branch whose rows store.
    #[error(
        "`{branch}` stores to a tensor from `output_transform` inside `per_head`, which a kernel cannot do for some heads alone; store from another hook, or use `Engine::cpu()`"
    )]
    HeadStores {
        /// The branch.
        branch: String,
    },
}

/// The text of a composition: structs of the parts, and `struct Variant`.
///
/// # Errors
/// Names inside a part that clash, and helpers that call themselves.
pub fn variant_source(variant: &Variant) -> Result<String, VariantError> {
    source(&Shape::of(variant))
}

/// The same, of descriptors.
///
/// # Errors
/// As [`variant_source`].
pub fn parts_source(parts: &[&VariantDesc]) -> Result<String, VariantError> {
    source(&Shape::All(parts.iter().map(|part| Shape::Part(part)).collect()))
}

/// A composition as an expression without parameters: what messages call its kernels.
#[must_use]
pub fn outline(variant: &Variant) -> String {
    Shape::of(variant).to_string()
}

/// Whether something is known of tiles under the variant's mask: where nothing is, plans are those of a variant without a mask.
#[must_use]
pub fn has_tile_class(variant: &Variant) -> bool {
    Shape::of(variant).has_class()
}

fn source(shape: &Shape<'_>) -> Result<String, VariantError> {
    let mut text = String::from("\n#line 1 \"variant\"\nnamespace lang {\n\n");
    text += &compose::text(shape)?;
    text += "\n}  // namespace lang\n\nusing lang::Variant;\n";
    Ok(text)
}
