//! Stock variants by expression, and the compiler without which tests are skipped.

#![allow(dead_code)] // each test uses some

use attn_core::{Registry, Variant};
use attn_kernels::{cache::CubinCache, compile::Compiler};
use attn_needs::{Need, needed};

/// The stock variants.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).expect("stock variants have distinct names");
    for format in attn_variants::kv_formats::all() {
        registry.register_kv_format(format).expect("stock formats have distinct names");
    }
    registry
}

/// An expression over the stock variants.
pub(crate) fn variant(expr: &str) -> Variant {
    Variant::parse_with(expr, &registry()).expect(expr)
}

/// A compiler, without which a test is skipped.
pub(crate) fn compiler() -> Option<Compiler> {
    needed(Need::Nvrtc, Compiler::find())
}

/// The cache of this compiler's own cubins. A test of what a compiler makes takes no other's.
pub(crate) fn cache() -> Option<CubinCache> {
    compiler().map(|compiler| CubinCache::of_compiler(&compiler))
}
