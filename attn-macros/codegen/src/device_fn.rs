//! `#[device_fn]`: keeps the function, and puts a module of the same name beside it that holds the CUDA text. A `use`
//! of the function imports both.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;

use crate::abstract_interp::normal_form::NormalForm;
use crate::abstract_interp::{self, emit_rust};
use crate::parse::{self, ItemContext, Links};
use crate::report::Report;
use crate::{budget, check, descriptor, emit, exact, expand, messages, names, spaces};

/// A helper: what the macro prints, and what a reader of Rust text makes a descriptor of.
#[derive(Debug, Default)]
pub struct HelperModel {
    /// Its text in CUDA; empty after an error.
    pub cuda: String,
    /// The text in KV formats, if it differs.
    pub exact: String,
    /// A function that it calls whose last bits differ between devices.
    pub inexact: &'static str,
    /// The helper over abstract values; `None` after an error.
    pub over: Option<NormalForm>,
    /// The helper over abstract values in CUDA.
    pub over_cuda: String,
    /// What it names.
    pub links: Links,
    /// What it does with indices.
    pub spaces: spaces::Found,
}

/// Expands the attribute. The item is kept, with or without errors.
#[allow(clippy::needless_pass_by_value)] // as the compiler hands them over
pub fn expand(attr: TokenStream, item: TokenStream) -> TokenStream {
    expand::kept(item, |item| Ok(companion(&attr, &function(item)?)))
}

/// The model of a function with this attribute.
///
/// # Errors
/// The function is refused.
pub fn analyse(attr: &TokenStream, item: TokenStream) -> Result<HelperModel, Report> {
    expand::read(item, |item| read(attr, &function(item)?))
}

fn function(item: TokenStream) -> Result<syn::ItemFn, Report> {
    match syn::parse2(item)? {
        syn::Item::Fn(f) => Ok(f),
        other => Err(Report::of(&other, messages::NOT_A_FN)),
    }
}

/// The module beside a function. After an error it has no text, so that hooks that call the function do not report
/// errors too.
fn companion(attr: &TokenStream, f: &syn::ItemFn) -> TokenStream {
    let (vis, ident) = (&f.vis, &f.sig.ident);
    let name = names::helper(&ident.to_string());
    let (helper, errors) = match read(attr, f) {
        Ok(helper) => (helper, TokenStream::new()),
        Err(report) => (HelperModel::default(), report.into_tokens()),
    };
    let HelperModel { cuda, exact, inexact, over, over_cuda, links, spaces } = helper;
    let over = match over {
        Some(form) => emit_rust::helper(&form, &emit_rust::RustNames { links: &links, fix: &in_child_module }),
        None => quote!(
            pub use ::attn::__private::lang::lints::unmarked::__helper::{over, parts};
        ),
    };
    let checks = spaces::checks(&spaces.deferred, &links, &quote!(&[]), in_child_module);
    let summary = spaces::summary(&spaces.summary);
    let consts = descriptor::consts(&links, in_child_module);
    let helpers = descriptor::helpers(&links, in_child_module);
    let types = descriptor::types(&links, in_child_module);
    let cfg = descriptor::cfg(&f.attrs);
    let message = messages::RECURSION;
    let recursion = (!links.helpers.is_empty()).then(|| {
        quote::quote_spanned! {ident.span()=>
            const _: () = ::attn::__private::lang::lints::not_recursive(&DEVICE_FN, #message);
        }
    });
    quote! {
        #errors
        #(#cfg)*
        #[doc(hidden)]
        #[allow(unused_imports, unreachable_pub, non_snake_case)]
        #vis mod #ident {
            use super::*;
            pub use ::attn::__private::lang::lints::WithDeviceFn as DeviceFnMark;
            pub const NAME: &str = #name;
            pub static DEVICE_FN: ::attn::__private::lang::DeviceFn = ::attn::__private::lang::DeviceFn {
                name: #name,
                cuda: #cuda,
                exact: #exact,
                inexact: #inexact,
                over: #over_cuda,
                device_fns: #helpers,
                types: #types,
                consts: #consts,
            };
            pub const SPACES: ::attn::__private::lang::lints::spaces::Spaces = #summary;
            #checks
            #recursion
            #over
        }
    }
}

fn read(attr: &TokenStream, f: &syn::ItemFn) -> Result<HelperModel, Report> {
    let mut shared = ItemContext { this_fn: Some(f.sig.ident.to_string()), ..ItemContext::default() };
    let sig = &f.sig;
    if !attr.is_empty() {
        shared.report.on(attr, messages::DEVICE_FN_ATTR);
    }
    generics(&sig.generics, &mut shared);
    if sig.asyncness.is_some() || matches!(sig.safety, syn::Safety::Unsafe(_)) || sig.abi.is_some() {
        shared.report.on(&sig.ident, messages::FN_KIND);
    }
    if let Some(receiver) = sig.receiver() {
        shared.report.on(receiver, messages::FN_SELF);
    }
    let read = parse::function(&mut shared, &f.attrs, sig, &f.block, |_, ty, shared| parse::ty::of(ty, shared));
    if budget::is_spent() {
        return Err(shared.report);
    }
    check::function(&read, &shared.types, &mut shared.report);
    let spaces = spaces::function(&read, &mut shared.report);
    let file = descriptor::file_of(sig.fn_token.span());
    let cuda = emit::helper(&read, &shared.generics, &shared.types, (&file, false), &mut shared.report);
    if !shared.report.is_empty() {
        return Err(shared.report);
    }
    let exact = emit::helper(&read, &shared.generics, &shared.types, (&file, true), &mut Report::default());
    let exact = if exact == cuda { String::new() } else { exact };
    let inexact = exact::differing(&read).map_or("", |(name, _)| name);
    let (over, over_cuda) = abstract_interp::helper(&read, &shared.types, &shared.generics);
    budget::spend(budget::OF_ITEM + (cuda.len() + 4 * over_cuda.len()) / 16);
    Ok(HelperModel { cuda, exact, inexact, over: Some(over), over_cuda, links: shared.links, spaces })
}

/// The constants that a helper is generic over.
pub(crate) fn generics(generics: &syn::Generics, shared: &mut ItemContext) {
    for param in &generics.params {
        let ty = match param {
            syn::GenericParam::Const(param) => parse::ty::of(&param.ty, shared).map(|ty| (param, ty)),
            other => {
                shared.report.on(other, messages::GENERIC_FN);
                None
            }
        };
        if let Some((param, ty)) = ty {
            let name = names::member(&param.ident.to_string());
            shared.generics.push((param.ident.to_string(), name, ty));
        }
    }
}

/// A path adapted to a scope one module deeper.
fn in_child_module(path: &syn::Path) -> syn::Path {
    let mut path = path.clone();
    match path.segments.first_mut() {
        Some(first) if first.ident == "self" => first.ident = syn::Ident::new("super", first.ident.span()),
        Some(first) if first.ident == "super" => {
            let above = first.clone();
            path.segments.insert(0, above);
        }
        _ => {}
    }
    path
}
