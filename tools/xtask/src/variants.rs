//! The table of stock variants in the book, made from the registry.

use std::fmt::Write as _;

use anyhow::Result;
use attn_core::Registry;
use attn_core::lang::{FieldDesc, FieldType, Normalizer, VariantDesc};

/// The table of the stock variants.
pub(crate) fn table() -> Result<String> {
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants())?;
    let mut out = String::from("\n| variant | what it is | parameters | hooks |\n|---|---|---|---|\n");
    for desc in registry.iter() {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            desc.name,
            escaped(desc.doc.lines().next().unwrap_or_default().trim()),
            joined(desc.fields.iter().map(parameter)),
            joined(hooks(desc)),
        );
    }
    Ok(out + "\n")
}

/// `cap: f32`, followed by `= ..` where it has a default.
fn parameter(field: &FieldDesc) -> String {
    let tensor = !matches!(field.ty, FieldType::Scalar(_));
    let shape = if tensor { format!(" of ({})", field.shape) } else { String::new() };
    let default = field.default.map(|default| format!(" = {default}")).unwrap_or_default();
    format!("`{}: {}{shape}{default}`", field.name, field.ty)
}

/// The hooks of a variant, and its normaliser where that is not softmax.
fn hooks(desc: &VariantDesc) -> impl Iterator<Item = String> {
    let hooks = desc.hooks.iter();
    let normalizer = (desc.normalizer != Normalizer::Softmax).then(|| format!("`Normalizer::{:?}`", desc.normalizer));
    hooks.map(|text| format!("`{}`", text.hook.method())).chain(normalizer)
}

fn joined(words: impl Iterator<Item = String>) -> String {
    escaped(&words.collect::<Vec<_>>().join(", "))
}

/// Bars are escaped: they would begin another column.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::report::between;

    fn rewrite(text: &str) -> anyhow::Result<String> {
        between(text, "variants", &table)
    }

    #[test]
    fn the_table_of_variants_equals_the_registry() {
        let page =
            std::fs::read_to_string(crate::paths::root().join("book/src/reference/variants.md")).expect("the page");
        let new = rewrite(&page).expect("the marks are there");
        assert!(new == page, "the table of variants differs from the registry; run `cargo xtask bench-report`");
        for desc in attn_variants::variants() {
            assert!(page.contains(&format!("| `{}` | ", desc.name)), "{} is not in the table", desc.name);
        }
    }

    #[test]
    fn marks_that_are_not_closed_are_errors() {
        assert!(rewrite("<!-- variants:begin (made)").is_err());
        assert!(rewrite("<!-- variants:begin -->").is_err());
        assert_eq!(rewrite("nothing").expect("no mark"), "nothing");
    }
}
