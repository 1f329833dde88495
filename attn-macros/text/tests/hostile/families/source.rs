//! Builders of hostile texts: sources of a variant around a hostile body, item or field.

use std::fmt::Write as _;

/// The texts of a family, with their names. A name ends with the size of what is hostile.
#[derive(Default)]
pub(crate) struct Texts(pub(super) Vec<(String, String)>);

impl Texts {
    pub(super) fn add(&mut self, name: impl Into<String>, text: String) {
        self.0.push((name.into(), text));
    }
}

/// A variant with these items before it, fields, and body of `logits_transform`, and the body of `logits_mask`.
pub(super) fn variant(items: &str, fields: &str, transform: &str, mask: &str) -> String {
    let mut hooks = String::new();
    if !transform.is_empty() {
        let _ = writeln!(hooks, "fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {{ {transform} }}");
    }
    if !mask.is_empty() {
        let _ = writeln!(hooks, "fn logits_mask(&self, at: LogitIndex) -> bool {{ {mask} }}");
    }
    format!(
        "use attn::prelude::*;\n{items}\n#[derive(Clone, VariantParams)]\nstruct V {{ {fields} }}\n\
         #[attention_variant]\nimpl AttentionVariant for V {{\n{hooks}}}\n"
    )
}

/// A variant whose `logits_transform` has this body, with `logit: f32`, `at` and the field `a: f32` in scope.
pub(super) fn transform(body: &str) -> String {
    variant("", "a: f32", body, "")
}

/// A variant whose `logits_mask` has this body, with `at` and the field `n: i32` in scope.
pub(super) fn mask(body: &str) -> String {
    variant("", "n: i32", "", body)
}

/// `open` and `close` around `inside`, `n` times.
pub(super) fn nested(open: &str, inside: &str, close: &str, n: usize) -> String {
    format!("{}{inside}{}", open.repeat(n), close.repeat(n))
}

/// `of(0)` to `of(n - 1)`, one after the other.
pub(super) fn joined(n: usize, of: impl Fn(usize) -> String) -> String {
    (0..n).map(of).collect()
}
