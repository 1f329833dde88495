//! Rust tokens that refer to the module that `#[device_fn]` puts beside a function.

use proc_macro2::TokenStream;
use quote::quote;

/// `value`, in which `__helper` is the module that `#[device_fn]` puts beside a function. Without the attribute it is a
/// stand-in that rustc refuses with a sentence about it: the named import `use f as __helper` shadows the glob import.
pub(crate) fn with_helper(path: &syn::Path, value: &TokenStream) -> TokenStream {
    quote! {{
        #[allow(unused_imports, clippy::wildcard_imports)]
        use ::attn::lang::lints::unmarked::*;
        #[allow(unused_imports, deprecated)]
        use #path as __helper;
        #value
    }}
}
