//! Words of the expression grammar, which cannot name a variant.

/// The names of the combinators.
pub(crate) const COMBINATORS: [&str; 5] = ["or", "not", "remap", "per_head", "union"];

/// Whether the word is reserved by the grammar.
pub(crate) fn is_reserved(name: &str) -> bool {
    matches!(name, "true" | "false" | "inf" | "nan") || COMBINATORS.contains(&name)
}
