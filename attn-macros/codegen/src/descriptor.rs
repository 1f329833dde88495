//! Emits the parts of the Rust descriptor that carry the CUDA text: links by path to constants, helpers and types, and
//! the derived mask.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;

use crate::abstract_interp::{DerivedMask, emit_rust};
use crate::helper_module::with_helper;
use crate::parse::Links;

/// `&[ConstDesc { .. }, ..]`; `fix` adapts each path to the scope of the emitted tokens.
pub(crate) fn consts(links: &Links, fix: impl Fn(&syn::Path) -> syn::Path) -> TokenStream {
    let consts = links.consts.iter().map(|link| {
        let (name, path) = (&link.name, fix(&link.path));
        let value = quote::quote_spanned!(link.path.span()=> ::attn::__private::lang::desc::HookConst::value(#path));
        quote! {
            ::attn::__private::lang::desc::ConstDesc { name: #name,
                value: ::attn::__private::lang::desc::ConstSource::Compiled(|| #value) }
        }
    });
    quote!(&[#(#consts),*])
}

/// The links to structs and enums, each at its first use.
pub(crate) fn types(links: &Links, fix: impl Fn(&syn::Path) -> syn::Path) -> TokenStream {
    let types = links.types.iter().map(|link| {
        let (name, path) = (&link.name, fix(&link.path));
        let mut ty = quote::quote_spanned!(link.path.span()=> <#path as ::attn::__private::lang::DeviceType>::DESC);
        if let Some(at) = link.compared {
            let path = respanned(quote!(#path), at);
            let asked = quote::quote_spanned!(at=> ::attn::__private::lang::device_type::compared::<#path>());
            ty = quote!({ #asked; #ty });
        }
        quote!(::attn::__private::lang::device_type::TypeLink { name: #name, ty: #ty })
    });
    quote!(&[#(#types),*])
}

/// Copies tokens with another span.
fn respanned(tokens: TokenStream, at: proc_macro2::Span) -> TokenStream {
    let respanned = tokens.into_iter().map(|mut token| {
        token.set_span(at.resolved_at(token.span()));
        token
    });
    respanned.collect()
}

/// The links to helpers, each at its call.
pub(crate) fn helpers(links: &Links, fix: impl Fn(&syn::Path) -> syn::Path) -> TokenStream {
    let helpers = links.helpers.iter().map(|(name, path)| {
        let path = fix(path);
        let span = path.segments.last().map_or_else(|| path.span(), |last| last.ident.span());
        let mark = quote::quote_spanned!(span=> __helper::DeviceFnMark);
        let marked = quote!((__helper::NAME, ::attn::__private::lang::lints::marked::<#mark>(&__helper::DEVICE_FN)));
        let found = with_helper(&path, &marked);
        quote::quote_spanned!(path.span()=> ::attn::__private::lang::desc::device_fn(#name, #found))
    });
    quote!(&[#(#helpers),*])
}

/// `MaskText { .. }`, and the derived methods of `Described`.
pub(crate) fn mask(mask: &DerivedMask, links: &Links) -> (TokenStream, TokenStream) {
    let DerivedMask { form, over, bounds, remaps, remap, tables, why_not } = mask;
    let names = emit_rust::RustNames { links, fix: &syn::Path::clone };
    let text = quote! {
        ::attn::__private::lang::desc::MaskText {
            over: #over,
            bounds: #bounds,
            remap: #remap,
            tables: &[#(#tables),*],
            why_not: #why_not,
        }
    };
    let remapped = (!remaps.is_empty()).then(|| {
        let coordinates = remaps.iter().map(|(word, form)| emit_rust::set_coordinate(form, word, &names));
        quote! {
            fn remap_over(&self, tile: &::attn::__private::lang::Tile) -> ::attn::__private::lang::Tile {
                let mut to = *tile;
                #(#coordinates)*
                to
            }
        }
    });
    let method = form.as_ref().map(|form| {
        let body = emit_rust::body(form, &names);
        quote! {
            fn mask_over(&self, tile: &::attn::__private::lang::Tile) -> ::attn::__private::lang::Tristate {
                #body
            }
        }
    });
    (text, method.into_iter().chain(remapped).collect())
}

/// The file that a span is in, as rustc was given it.
pub(crate) fn file_of(span: proc_macro2::Span) -> String {
    span.file().replace('\\', "/")
}

/// The file that a span is in, as `attn-core/src/lang/random.rs`: the same wherever the package lies.
pub(crate) fn file_in_package(span: proc_macro2::Span) -> String {
    let file = file_of(span);
    let variable = |name| std::env::var(name).unwrap_or_default().replace('\\', "/");
    let below = file.strip_prefix(&variable("CARGO_MANIFEST_DIR")).unwrap_or(&file).trim_start_matches('/');
    match below.split_once("src/") {
        Some((_, below)) => format!("{}/src/{below}", variable("CARGO_PKG_NAME")),
        None => file,
    }
}

/// The `#[cfg]` attributes of an item, which the items emitted beside it repeat.
pub(crate) fn cfg(attrs: &[syn::Attribute]) -> Vec<&syn::Attribute> {
    attrs.iter().filter(|a| a.path().is_ident("cfg")).collect()
}
