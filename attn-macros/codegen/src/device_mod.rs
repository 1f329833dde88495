//! `#[device_mod]`: keeps an inline module, and adds its functions, structs and constants as the text of a CUDA header.
//!
//! For code that the host and the kernels of attn-rs share. Unlike a `#[device_fn]`, each function sees the signatures
//! and types of the others, so every type in the text is spelled, and functions may be generic over types with a trait
//! of the module. What a trait declares, CUDA has by hand: `T::LEAST` is `LEAST<T>`, `x.to_i64()` is `to_i64(x)`.
//! `#[call]` keeps a function from being inlined in kernels. Items other than functions, structs and constants are for
//! Rust alone.

mod scope;

use std::rc::Rc;

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};

use crate::module_scope::Scope;
use crate::parse::{self, ItemContext};
use crate::report::Report;
use crate::{budget, check, descriptor, emit, loop_attributes, messages, names};

/// Expands the attribute. The module is kept, with a constant `CUDA` added.
#[allow(clippy::needless_pass_by_value)] // as the compiler hands them over
pub fn expand(attr: TokenStream, item: TokenStream) -> TokenStream {
    let kept = loop_attributes::removed(item.clone());
    // it is code of attn-rs, of any length
    let (text, _) = budget::within(u64::MAX, || with_text(attr, item, kept.clone()));
    text.unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote!(#kept #error)
    })
}

fn with_text(attr: TokenStream, item: TokenStream, kept: TokenStream) -> syn::Result<TokenStream> {
    let header: Header = syn::parse2(attr)?;
    let mut report = Report::default();
    let text = text(&header, &syn::parse2(item)?, &mut report);
    let mut kept: syn::ItemMod = syn::parse2(kept)?;
    if let Some((_, items)) = &mut kept.content {
        items.push(syn::parse_quote! {
            /// The CUDA header of this module.
            pub const CUDA: &str = #text;
        });
    }
    let errors = report.into_tokens();
    Ok(quote!(#kept #errors))
}

/// `namespace = "lang::random", include = "lang/math.cuh"`.
struct Header {
    namespace: String,
    includes: Vec<String>,
}

impl Header {
    /// What stands before the language's functions.
    fn prefix(&self) -> &'static str {
        if self.namespace == "lang" { "" } else { "lang::" }
    }
}

impl Parse for Header {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut header = Header { namespace: String::new(), includes: Vec::new() };
        let pairs = input.parse_terminated(syn::MetaNameValue::parse, syn::Token![,])?;
        for pair in pairs {
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else {
                return Err(syn::Error::new_spanned(&pair.value, messages::DEVICE_MOD_ATTR));
            };
            match () {
                () if pair.path.is_ident("namespace") => header.namespace = text.value(),
                () if pair.path.is_ident("include") => header.includes.push(text.value()),
                () => return Err(syn::Error::new_spanned(&pair.path, messages::DEVICE_MOD_ATTR)),
            }
        }
        Ok(header)
    }
}

fn text(header: &Header, module: &syn::ItemMod, report: &mut Report) -> String {
    let Some((_, items)) = &module.content else {
        report.on(module, messages::DEVICE_MOD_INLINE);
        return String::new();
    };
    let scope = scope::of(items, report);
    let mut out = comments(&module.attrs, "");
    for include in &header.includes {
        out.push_str(&format!("#include \"{include}\"\n"));
    }
    let file = descriptor::file_in_package(module.mod_token.span);
    out.push_str(&format!("\nnamespace {} {{\n", header.namespace));
    for item in items.iter().filter(|item| !scope::is_for_rust(item)) {
        match item {
            syn::Item::Fn(item) => out.push_str(&function(item, &scope, header, &file, report)),
            syn::Item::Struct(item) => out.push_str(&structure(item, &scope, &file)),
            syn::Item::Const(item) => out.push_str(&constant(item, &scope, header, report)),
            _ => {}
        }
    }
    out.push_str(&format!("\n}}  // namespace {}\n", header.namespace));
    out
}

/// Doc comments as comments of the text.
fn comments(attrs: &[syn::Attribute], indent: &str) -> String {
    names::comments(&format!("{indent}//"), &parse::plain_doc_lines(attrs))
}

fn template(generics: &syn::Generics, context: &ItemContext) -> String {
    let params = generics.params.iter().filter_map(|param| match param {
        syn::GenericParam::Type(param) => Some(format!("class {}", param.ident)),
        syn::GenericParam::Const(param) => {
            let (_, _, ty) = context.generics.iter().find(|(name, ..)| param.ident == name)?;
            Some(format!("{} {}", emit::spelled(ty, &context.types)?, param.ident))
        }
        syn::GenericParam::Lifetime(_) => None,
    });
    let params: Vec<String> = params.collect();
    if params.is_empty() { String::new() } else { format!("template <{}>\n", params.join(", ")) }
}

fn function(item: &syn::ItemFn, scope: &Rc<Scope>, header: &Header, file: &str, report: &mut Report) -> String {
    let mut shared = scope::context(scope, &item.sig.generics);
    for param in item.sig.generics.const_params() {
        if let Some(ty) = parse::ty::of(&param.ty, &mut shared) {
            shared.generics.push((param.ident.to_string(), param.ident.to_string(), ty));
        }
    }
    let read =
        parse::function(&mut shared, &item.attrs, &item.sig, &item.block, |_, ty, shared| parse::ty::of(ty, shared));
    check::function(&read, &shared.types, &mut shared.report);
    let linkage = if item.attrs.iter().any(|attr| attr.path().is_ident("call")) { "ATTN_CALL" } else { "ATTN_FN" };
    let head = format!("\n{}", comments(&item.attrs, ""));
    let template = template(&item.sig.generics, &shared);
    let before = format!("{template}{linkage}");
    let text = emit::module_function(&read, &before, header.prefix(), &shared.types, file, &mut shared.report);
    report.append(shared.report);
    head + &text
}

fn structure(item: &syn::ItemStruct, scope: &Rc<Scope>, file: &str) -> String {
    let context = scope::context(scope, &item.generics);
    let name = item.ident.to_string();
    let mut out = format!("\n{}", comments(&item.attrs, ""));
    out.push_str(&names::line_directive(item.struct_token.span, file));
    out.push_str(&template(&item.generics, &context));
    out.push_str(&format!("struct {name} {{\n"));
    let types = scope.structs.get(&name).map(|of| of.fields.as_slice()).unwrap_or_default();
    for (field, (name, ty)) in item.fields.iter().zip(types) {
        out.push_str(&comments(&field.attrs, "  "));
        out.push_str(&format!("  {} {name};\n", emit::spelled(ty, &context.types).unwrap_or_default()));
    }
    out + "};\n"
}

fn constant(item: &syn::ItemConst, scope: &Rc<Scope>, header: &Header, report: &mut Report) -> String {
    // a constant is the value of a function without arguments
    let (name, ty, value) = (&item.ident, &item.ty, &item.expr);
    let Ok(f) = syn::parse2::<syn::ItemFn>(quote!(fn #name() -> #ty { #value })) else { return String::new() };
    let mut shared = scope::context(scope, &item.generics);
    let read = parse::function(&mut shared, &[], &f.sig, &f.block, |_, ty, shared| parse::ty::of(ty, shared));
    let value = emit::module_value(&read, header.prefix(), &shared.types, &mut shared.report);
    let ty = emit::spelled(&read.ret, &shared.types).unwrap_or_default();
    report.append(shared.report);
    format!("\n{}constexpr {ty} {name} = {value};\n", comments(&item.attrs, ""))
}

#[cfg(test)]
mod tests;
