//! `#[kv_format]`: from the impl of a KV format to its descriptor, with the CUDA of `encode` and `decode`.

use std::collections::BTreeSet;

use heck::ToSnakeCase as _;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{spanned::Spanned, visit::Visit};

use crate::attribute::{self, Instance};
use crate::helper_module::with_helper;
use crate::impl_item::{type_name, without_self};
use crate::parse::{self, ItemContext, Links};
use crate::report::Report;
use crate::types::{Plane, Ty};
use crate::{budget, check, descriptor, emit, exact, expand, messages, notes};

/// Everything found in one impl.
struct Format {
    name: String,
    /// The instances of a generic format.
    instances: Vec<Instance>,
    functions: Functions,
    /// The functions as data.
    extents: TokenStream,
    links: Links,
    used: emit::Used,
    /// The parameters that the impl names.
    named: BTreeSet<String>,
}

/// The C++ text of a format.
#[derive(Debug, Default)]
pub struct Functions {
    /// Stores a row.
    pub encode: String,
    /// Reads eight elements.
    pub decode: String,
    /// The scale of a group of codes; empty where it is not written.
    pub scale: String,
    /// The zero of a group of codes; empty where it is not written.
    pub zero: String,
    /// The number of a code; empty where it is not written.
    pub level: String,
}

/// Expands the attribute. The item is kept, with or without errors.
#[allow(clippy::needless_pass_by_value)] // as the compiler hands them over
pub fn expand(attr: TokenStream, item: TokenStream) -> TokenStream {
    expand::kept(item, |item| match syn::parse2(item)? {
        syn::Item::Impl(item) => Ok(match read(&attr, &item) {
            Ok(format) => companions(&item, &format),
            Err(report) => {
                let (refused, errors) = (refused(&item), report.into_tokens());
                quote!(#errors #refused)
            }
        }),
        other => Err(Report::of(&other, messages::NOT_A_FORMAT_IMPL)),
    })
}

/// The C++ text of an impl, for tests and tools.
///
/// # Errors
/// The impl is refused.
pub fn functions(item: &syn::ItemImpl) -> Result<Functions, Report> {
    budget::checked(item.impl_token.span, || read(&TokenStream::new(), item)).map(|format| format.functions)
}

/// Stands for what a refused format has not, so that lists of formats do not report it again.
fn refused(item: &syn::ItemImpl) -> TokenStream {
    if !is_of_trait(item) || type_name(item).is_none() || !item.generics.params.is_empty() {
        return TokenStream::new();
    }
    let (ty, cfg) = (&item.self_ty, descriptor::cfg(&item.attrs));
    quote! {
        #(#cfg)*
        const _: () = {
            #[automatically_derived]
            impl ::attn::__private::lang::kv_format::DescribedKvFormat for #ty {
                fn desc() -> &'static ::attn::__private::lang::kv_format::KvFormatDesc {
                    ::core::unreachable!()
                }
            }
        };
    }
}

fn is_of_trait(item: &syn::ItemImpl) -> bool {
    let last = item.trait_.as_ref().and_then(|(path, _)| path.segments.last());
    last.is_some_and(|last| last.ident == "KvFormat")
}

fn read(attr: &TokenStream, item: &syn::ItemImpl) -> Result<Format, Report> {
    let mut shared = ItemContext::default();
    let (name, instances) = shape(attr, item, &mut shared.report);
    let file = descriptor::file_of(item.impl_token.span());
    let mut read = Vec::new();
    for entry in &item.items {
        if let syn::ImplItem::Fn(f) = entry {
            read.extend(read_function(f, &mut shared));
        }
    }
    if budget::is_spent() {
        return Err(shared.report);
    }
    let (mut functions, mut used) = (Functions::default(), emit::Used::default());
    for f in &read {
        check::function(f, &shared.types, &mut shared.report);
        exact::check(f, &mut shared.report);
        let cuda = emit::kv_function(f, &shared.types, &file, &mut used, &mut shared.report);
        *(match f.name.as_str() {
            "encode" => &mut functions.encode,
            "decode" => &mut functions.decode,
            "scale" => &mut functions.scale,
            "level" => &mut functions.level,
            _ => &mut functions.zero,
        }) = cuda;
    }
    if !shared.report.is_empty() {
        return Err(shared.report);
    }
    let mut named = Named(BTreeSet::new());
    named.visit_item_impl(item);
    let extents = extents::of(&read, &shared.types, &shared.links, &|path| without_self(path, &item.self_ty));
    Ok(Format { name, instances, functions, extents, links: shared.links, used, named: named.0 })
}

/// Reads the item's signature: the format's name, and its instances where it is generic.
fn shape(attr: &TokenStream, item: &syn::ItemImpl, report: &mut Report) -> (String, Vec<Instance>) {
    let attribute = attribute::read(attr, attribute::of_format, report);
    match &item.trait_ {
        Some((path, _)) if !is_of_trait(item) => report.on(path, messages::NOT_THE_FORMAT_TRAIT),
        None => report.on(&item.self_ty, messages::NOT_THE_FORMAT_TRAIT),
        Some(_) => {}
    }
    attribute::check(&attribute, &item.generics, report);
    let type_name = type_name(item);
    if type_name.is_none() {
        report.on(&item.self_ty, messages::NOT_A_FORMAT_PATH);
    }
    let name = attribute.name.unwrap_or_else(|| {
        let default = type_name.clone().unwrap_or_default().to_snake_case();
        if type_name.is_some() && !attribute::is_legal(&default) {
            report.on(&item.self_ty, attribute::of_format(messages::NEEDS_NAME));
        }
        default
    });
    (name, attribute.instances)
}

/// Reads a function that runs on devices; the other functions run on the host alone.
fn read_function(f: &syn::ImplItemFn, shared: &mut ItemContext) -> Option<crate::ir::Function> {
    let args = match f.sig.ident.to_string().as_str() {
        "encode" => vec![Ty::EncodeRow, Ty::PackedMut(Plane::Codes), Ty::PackedMut(Plane::Side), Ty::I32],
        "decode" => vec![Ty::Packed(Plane::Codes), Ty::Packed(Plane::Side), Ty::I32, Ty::I32],
        "scale" | "zero" => vec![Ty::Packed(Plane::Side), Ty::I32, Ty::I32],
        "level" => vec![Ty::I32],
        _ => return None,
    };
    if let Some(attr) = f.attrs.iter().find(|a| a.path().is_ident("cfg") || a.path().is_ident("cfg_attr")) {
        shared.report.on(attr, messages::CFG_HOOK);
    }
    let mut read = parse::function(shared, &f.attrs, &f.sig, &f.block, |i, _, _| args.get(i).cloned());
    read.args.iter_mut().for_each(|argument| argument.by_reference = false); // the type says it
    if read.name == "decode" && read.ret != Ty::Array(Box::new(Ty::F32), 8) {
        match &f.sig.output {
            syn::ReturnType::Type(_, ty) => shared.report.on(ty, messages::FORMAT_RESULT),
            syn::ReturnType::Default => shared.report.on(&f.sig.ident, messages::FORMAT_RESULT),
        }
    }
    Some(read)
}

/// The names `x` of every `self.x`.
struct Named(BTreeSet<String>);

impl<'ast> Visit<'ast> for Named {
    fn visit_expr_field(&mut self, e: &'ast syn::ExprField) {
        if let (syn::Expr::Path(base), syn::Member::Named(name)) = (&*e.base, &e.member)
            && base.path.is_ident("self")
        {
            self.0.insert(name.to_string().trim_start_matches("r#").to_owned());
        }
        syn::visit::visit_expr_field(self, e);
    }
}

/// The items emitted beside the impl: once for each instance of a generic format, with its constants in scope.
fn companions(item: &syn::ItemImpl, format: &Format) -> TokenStream {
    if format.instances.is_empty() {
        return companion(item, format, &format.name, &[]);
    }
    let instances = format.instances.iter().map(|instance| {
        let name = format!("{}_{}", format.name, instance.suffix().unwrap_or_default());
        companion(item, format, &name, &instance.constants(&item.generics))
    });
    instances.collect()
}

fn companion(item: &syn::ItemImpl, format: &Format, name: &str, scope: &[syn::ItemConst]) -> TokenStream {
    let ty = &item.self_ty;
    let type_name = type_name(item).unwrap_or_default();
    // the doc comment of the impl, else that of the struct, which only the derive sees
    let doc = match parse::doc_lines(&item.attrs).join("\n") {
        doc if doc.is_empty() => quote!(<::attn::__private::lang::lints::Derived<#ty>>::DOC),
        doc => quote!(#doc),
    };
    let file = descriptor::file_of(item.impl_token.span());
    let line = u32::try_from(item.impl_token.span().start().line).unwrap_or(0);
    let Functions { encode, decode, scale, zero, level } = &format.functions;
    let extents = &format.extents;
    let consts = descriptor::consts(&format.links, |path| without_self(path, ty));
    let helpers = descriptor::helpers(&format.links, syn::Path::clone);
    let types = descriptor::types(&format.links, syn::Path::clone);
    let divisors = format.used.divisors.keys();
    let notes = notes::of(item, &format.used, format.named.iter().map(String::as_str));
    let exact = exact_helpers(&format.links);
    let cfg = descriptor::cfg(&item.attrs);
    quote! {
        #(#cfg)*
        const _: () = {
            #(#scope)*
            #[allow(unused_imports)]
            use ::attn::__private::lang::interval as __interval;
            use ::attn::__private::lang::kv_format::extents as __extents;
            use ::attn::__private::lang::lints::NotDerived as _;
            static DESC: ::attn::__private::lang::kv_format::KvFormatDesc =
                ::attn::__private::lang::kv_format::KvFormatDesc {
                name: #name,
                type_name: #type_name,
                doc: #doc,
                file: #file,
                line: #line,
                fields: <::attn::__private::lang::lints::Derived<#ty>>::FIELDS,
                encode: #encode,
                decode: #decode,
                scale: #scale,
                zero: #zero,
                level: #level,
                extents: #extents,
                divisors: &[#(#divisors),*],
                device_fns: #helpers,
                types: #types,
                consts: #consts,
                make: ::attn::__private::make_kv_format::<#ty>,
            };
            #[automatically_derived]
            impl ::attn::__private::lang::kv_format::DescribedKvFormat for #ty {
                fn desc() -> &'static ::attn::__private::lang::kv_format::KvFormatDesc {
                    &DESC
                }
            }
            ::attn::__private::submit_kv_format!(#ty);
            #notes
            #exact
        };
    }
}

/// Constants whose evaluation fails, at the call, where a helper calls a function whose last bits differ.
fn exact_helpers(links: &Links) -> TokenStream {
    let message = messages::INEXACT_HELPER;
    let checks = links.helpers.iter().map(|(_, path)| {
        let span = path.segments.last().map_or_else(|| path.span(), |last| last.ident.span());
        let check = quote_spanned!(span=> ::attn::__private::lang::lints::exact(&__helper::DEVICE_FN, #message));
        let check = with_helper(path, &check);
        quote_spanned!(span=> const _: () = #check;)
    });
    checks.collect()
}

mod extents;
#[cfg(test)]
mod tests;
