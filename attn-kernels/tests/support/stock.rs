//! Stock variants by expression, and the compiler without which tests are skipped.

#![allow(dead_code, clippy::print_stderr)] // each test uses some

use attn_core::{Registry, Variant};
use attn_kernels::compile::Compiler;

/// The stock variants.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).expect("stock variants have distinct names");
    registry
}

/// An expression over the stock variants.
pub(crate) fn variant(expr: &str) -> Variant {
    Variant::parse_with(expr, &registry()).expect(expr)
}

/// Whether there is a compiler. If not, prints that the test is skipped; `cargo xtask test` always provides one.
pub(crate) fn has_compiler() -> bool {
    Compiler::find().inspect_err(|error| eprintln!("SKIPPED: {error}")).is_ok()
}
