//! The Rust that carries the text: descriptors, links by path, registration.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;

use crate::{parse::Links, tiles::Mask};

/// `&[ConstDesc { .. }, ..]`; `fix` adapts each path to where the tokens will stand.
pub(crate) fn consts(links: &Links, fix: impl Fn(&syn::Path) -> syn::Path) -> TokenStream {
    let consts = links.consts.iter().map(|link| {
        let (name, path) = (&link.name, fix(&link.path));
        let value = quote::quote_spanned!(link.path.span()=> ::attn::lang::desc::HookConst::value(#path));
        quote!(::attn::lang::desc::ConstDesc { name: #name, value: || #value })
    });
    quote!(&[#(#consts),*])
}

/// `&[&path::DEVICE_FN, ..]`.
pub(crate) fn helpers(links: &Links, fix: impl Fn(&syn::Path) -> syn::Path) -> TokenStream {
    let helpers = links.helpers.iter().map(|(name, path)| {
        let path = fix(path);
        quote::quote_spanned!(path.span()=> ::attn::lang::desc::device_fn(#name, &#path::DEVICE_FN))
    });
    quote!(&[#(#helpers),*])
}

/// `MaskText { .. }`, and `Described::mask_over` where something is derived.
pub(crate) fn mask(mask: Option<&Mask>) -> (TokenStream, TokenStream) {
    let Some(Mask { rust, over, bounds, tables, why_not }) = mask else {
        return (quote!(::attn::lang::desc::MaskText::NONE), TokenStream::new());
    };
    let text = quote! {
        ::attn::lang::desc::MaskText { over: #over, bounds: #bounds, tables: &[#(#tables),*], why_not: #why_not }
    };
    let method = rust.as_ref().map(|body| {
        quote! {
            fn mask_over(&self, tile: &::attn::lang::Tile) -> ::attn::lang::Tri {
                #body
            }
        }
    });
    (text, method.into_iter().collect())
}

/// The name of the file that a span is in, as rustc was given it.
pub(crate) fn file_of(span: proc_macro2::Span) -> String {
    span.file().replace('\\', "/")
}

/// The conditions under which an item is there: what stands beside it is there under the same.
pub(crate) fn cfg(attrs: &[syn::Attribute]) -> Vec<&syn::Attribute> {
    attrs.iter().filter(|a| a.path().is_ident("cfg")).collect()
}
