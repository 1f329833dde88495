//! Rust tokens that refer to the module that `#[device_fn]` puts beside a function.

use proc_macro2::TokenStream;
use quote::quote;

/// `value`, in which `__helper` is the module that `#[device_fn]` puts beside a function. A function without the
/// attribute has no such module. `__helper` then resolves to the glob-imported fallback, and rustc reports that the
/// attribute is missing. With the attribute, the named import `use f as __helper` shadows the glob import.
pub(crate) fn with_helper(path: &syn::Path, value: &TokenStream) -> TokenStream {
    quote! {{
        #[allow(unused_imports, clippy::wildcard_imports)]
        use ::attn::__private::lang::lints::unmarked::*;
        #[allow(unused_imports, deprecated)]
        use #path as __helper;
        #value
    }}
}
