//! `#[attention_variant]`: from the impl of a variant to its model (hooks as IR and CUDA, normaliser, instances), and
//! from that to the descriptor that the macro emits.

use heck::{ToSnakeCase as _, ToUpperCamelCase as _};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;

use crate::attribute::{self, Instance};
use crate::compose_part::{self, NormalizerChange};
use crate::coordinates::CoordinateRead;
use crate::impl_item::{type_name, without_group, without_self};
use crate::parse::{self, ItemContext, Links};
use crate::report::Report;
use crate::{
    abstract_interp, budget, check, coordinates, descriptor, emit, expand, hook, identity, messages, names, notes,
    spaces,
};

/// A hook's name and C++ text.
#[derive(Debug)]
pub struct HookText {
    /// The method.
    pub name: String,
    /// The C++ text.
    pub cuda: String,
}

/// A variant: what the macro prints, and what a reader of Rust text makes a descriptor of.
#[derive(Debug)]
pub struct VariantModel {
    /// The last segment of the type.
    pub type_name: String,
    /// The doc comment of the impl; empty where the one of the struct stands for it.
    pub doc: String,
    /// The file, as the compiler was given it.
    pub file: String,
    /// The line of the impl.
    pub line: u32,
    /// The instances of a generic variant, or the variant alone.
    pub instances: Vec<Named>,
    /// Hooks in the order of the trait.
    pub hooks: Vec<HookText>,
    /// `logits_bias`: the bias of a logits transform that does nothing but add it; else empty.
    pub bias: String,
    /// `logits_slope`: the slope of a bias that is a product with the distance; else empty.
    pub slope: String,
    /// `logits_bias_row`: the start of the bias row, if the bias is an element of a parameter tensor; else empty.
    pub bias_row: String,
    /// `logits_bound`: the largest magnitude of the transform's result; or empty.
    pub bound: String,
    /// Coordinates that hooks read.
    pub coordinates: Vec<CoordinateRead>,
    /// What hooks name.
    pub links: Links,
    /// Parameters that hooks read, divide by and store to.
    pub used: emit::Used,
    /// What it does to the normaliser.
    pub(crate) normalizer: NormalizerChange,
    /// Mistakes that the parameters and helpers decide.
    pub deferred: Vec<spaces::Deferred>,
    /// The mask and remapping hooks over a tile.
    pub mask: abstract_interp::DerivedMask,
}

/// An instance of a variant.
#[derive(Debug)]
pub struct Named {
    /// Its name in expressions.
    pub name: String,
    /// The constants that the impl is generic over.
    pub constants: Vec<syn::ItemConst>,
}

/// Expands the attribute. The item is kept, with or without errors.
#[allow(clippy::needless_pass_by_value)] // as the compiler hands them over
pub fn expand(attr: TokenStream, item: TokenStream) -> TokenStream {
    expand::kept(item, |item| {
        let item = impl_of(item)?;
        Ok(match read(&attr, &item) {
            // once for each instance of a generic variant, with its constants in scope
            Ok(model) => model.instances.iter().map(|instance| companion(&item, &model, instance)).collect(),
            Err(report) => {
                let (refused, errors) = (refused(&item), report.into_tokens());
                quote!(#errors #refused)
            }
        })
    })
}

/// The model of an impl with this attribute.
///
/// # Errors
/// The impl is refused.
pub fn analyse(attr: &TokenStream, item: TokenStream) -> Result<VariantModel, Report> {
    expand::read(item, |item| read(attr, &impl_of(item)?))
}

fn impl_of(item: TokenStream) -> Result<syn::ItemImpl, Report> {
    match syn::parse2(item)? {
        syn::Item::Impl(item) => Ok(item),
        other => Err(Report::of(&other, messages::NOT_AN_IMPL)),
    }
}

/// Stands for what a refused variant has not, so that lists of variants do not report it again.
fn refused(item: &syn::ItemImpl) -> TokenStream {
    let of_trait = item
        .trait_
        .as_ref()
        .is_some_and(|(path, _)| path.segments.last().is_some_and(|last| last.ident == "AttentionVariant"));
    if !of_trait || type_name(item).is_none() || !item.generics.params.is_empty() {
        return TokenStream::new();
    }
    let (ty, cfg) = (&item.self_ty, descriptor::cfg(&item.attrs));
    quote! {
        #(#cfg)*
        const _: () = {
            #[automatically_derived]
            impl ::attn::__private::lang::Described for #ty {
                fn desc() -> &'static ::attn::__private::lang::VariantDesc {
                    ::core::unreachable!()
                }
            }
        };
    }
}

/// The C++ text of an impl's hooks, for tests and tools.
pub fn hooks(item: &syn::ItemImpl) -> Result<Vec<HookText>, Report> {
    budget::checked(item.impl_token.span, || read(&TokenStream::new(), item)).map(|v| v.hooks)
}

fn read(attr: &TokenStream, item: &syn::ItemImpl) -> Result<VariantModel, Report> {
    let mut shared = ItemContext::default();
    let instances = shape(attr, item, &mut shared.report);
    let file = descriptor::file_of(item.impl_token.span());
    let mut functions = Vec::new();
    let mut normalizer = None;
    for entry in &item.items {
        match entry {
            syn::ImplItem::Fn(f) => functions.extend(read_hook(f, &mut shared)),
            syn::ImplItem::Const(c) if c.ident == "NORMALIZER" => normalizer = Some(c),
            _ => {}
        }
    }
    check_hooks(item, normalizer, &mut shared.report);
    if budget::is_spent() {
        return Err(shared.report);
    }
    let mut hooks = Vec::new();
    let mut used = emit::Used::default();
    let [mut bias, mut slope, mut bias_row, mut bound] = [const { String::new() }; 4];
    let (mut read, mut deferred) = (Vec::new(), Vec::new());
    for f in &functions {
        check::function(f, &shared.types, &mut shared.report);
        deferred.extend(spaces::function(f, &mut shared.report).deferred);
        let cuda = emit::hook(f, &shared.types, &file, &mut used, &mut shared.report);
        if identity::is_identity(f) {
            continue;
        }
        hooks.push(HookText { name: f.name.clone(), cuda });
        bias.extend(budget::derived(|| emit::bias(f, &shared.types, &file)));
        slope.extend(budget::derived(|| emit::slope(f, &shared.types, &file)));
        bias_row.extend(budget::derived(|| emit::bias_row(f, &shared.types, &file)));
        bound.extend(budget::derived(|| emit::bound(f, &shared.types, &file)));
        read.extend(coordinates::read(f));
    }
    if !shared.report.is_empty() {
        return Err(shared.report);
    }
    hooks.sort_by_key(|h| hook::NAMES.iter().position(|n| *n == h.name));
    let normalizer = normalizer.map_or(NormalizerChange::Keeps, |c| match () {
        () if mentions(c, "Softmax") => NormalizerChange::Keeps,
        () if mentions(c, "Plain") => NormalizerChange::ReplacesPlain,
        () => NormalizerChange::Replaces,
    });
    let mask = abstract_interp::derived(&functions, &shared.types);
    // what is emitted, once for each instance
    let bytes = hooks.iter().map(|hook| hook.cuda.len()).sum::<usize>() + 4 * mask.over.len();
    budget::spend(instances.len() * (3 * budget::OF_ITEM + bytes / 16));
    Ok(VariantModel {
        type_name: type_name(item).unwrap_or_default(),
        doc: parse::doc_lines(&item.attrs).join("\n"),
        line: u32::try_from(item.impl_token.span().start().line).unwrap_or(0),
        file,
        instances,
        mask,
        hooks,
        bias,
        slope,
        bias_row,
        bound,
        coordinates: read,
        links: shared.links,
        used,
        normalizer,
        deferred,
    })
}

/// Reads the item's signature: the variant's name, or those of its instances where it is generic.
fn shape(attr: &TokenStream, item: &syn::ItemImpl, report: &mut Report) -> Vec<Named> {
    let attribute = attribute::read(attr, str::to_owned, report);
    match &item.trait_ {
        Some((path, _)) if path.segments.last().is_some_and(|s| s.ident == "AttentionVariant") => {}
        Some((path, _)) => report.on(path, messages::NOT_THE_TRAIT),
        None => report.on(&item.self_ty, messages::NOT_THE_TRAIT),
    }
    attribute::check(&attribute, &item.generics, report);
    let type_name = type_name(item);
    if type_name.is_none() {
        report.on(&item.self_ty, messages::NOT_A_PATH);
    }
    let name = attribute.name.unwrap_or_else(|| {
        let default = type_name.clone().unwrap_or_default().to_snake_case();
        if type_name.is_some() && !attribute::is_legal(&default) {
            report.on(&item.self_ty, messages::NEEDS_NAME);
        } else if attribute.instances.is_empty() && attribute::is_reserved(&default) {
            report.on(&item.self_ty, messages::RESERVED_NAME);
        }
        default
    });
    if attribute.instances.is_empty() {
        return vec![Named { name, constants: Vec::new() }];
    }
    let named = |instance: &Instance| Named {
        name: format!("{name}_{}", instance.suffix().unwrap_or_default()),
        constants: instance.constants(&item.generics),
    };
    attribute.instances.iter().map(named).collect()
}

fn read_hook(f: &syn::ImplItemFn, shared: &mut ItemContext) -> Option<crate::ir::Function> {
    let name = f.sig.ident.to_string();
    if !hook::NAMES.contains(&name.as_str()) {
        let hint = names::nearest(&name, hook::NAMES.iter().copied())
            .map_or_else(|| format!("there are {}", hook::NAMES.join(", ")), |n| format!("did you mean `{n}`?"));
        shared.report.on(&f.sig.ident, format!("no hook is called `{name}`: {hint}"));
        return None;
    }
    if let Some(attr) = f.attrs.iter().find(|a| a.path().is_ident("cfg") || a.path().is_ident("cfg_attr")) {
        shared.report.on(attr, messages::CFG_HOOK);
    }
    let args = hook::args(&name);
    Some(parse::function(shared, &f.attrs, &f.sig, &f.block, |i, _, _| args.get(i).cloned()))
}

/// Checks which hooks go together.
fn check_hooks(item: &syn::ItemImpl, normalizer: Option<&syn::ImplItemConst>, report: &mut Report) {
    let find = |name: &str| {
        item.items.iter().find_map(|i| match i {
            syn::ImplItem::Fn(f) if f.sig.ident == name => Some(&f.sig.ident),
            _ => None,
        })
    };
    let is = |kind: &str| normalizer.is_some_and(|c| mentions(c, kind));
    let softmax = normalizer.is_none() || is("Softmax");
    match (find("weight"), normalizer) {
        (Some(weight), _) if softmax => report.on(weight, messages::WEIGHT_UNDER_SOFTMAX),
        (None, Some(c)) if !softmax => report.on(&c.expr, messages::NORMALIZER_WITHOUT_WEIGHT),
        _ => {}
    }
    if let Some(denominator) = find("denominator")
        && (softmax || is("Plain"))
    {
        report.on(denominator, messages::DENOMINATOR_UNDER_OTHER);
    }
    if let Some(sink) = find("sink_logit")
        && is("Plain")
    {
        report.on(sink, messages::SINK_UNDER_PLAIN);
    }
    if let Some(range) = find("kv_range")
        && find("logits_mask").is_none()
    {
        report.on(range, messages::KV_RANGE_WITHOUT_MASK);
    }
}

/// Whether a constant's expression contains this word.
fn mentions(constant: &syn::ImplItemConst, word: &str) -> bool {
    let text = constant.expr.to_token_stream().to_string();
    text.split(|c: char| !c.is_alphanumeric()).any(|w| w == word)
}

/// The items emitted beside the impl for an instance.
fn companion(item: &syn::ItemImpl, variant: &VariantModel, instance: &Named) -> TokenStream {
    let ty = &item.self_ty;
    let VariantModel { type_name, file, line, bias, slope, bias_row, bound, .. } = variant;
    let Named { name, constants } = instance;
    // else the doc comment of the struct, which only the derive sees
    let doc = match &variant.doc {
        doc if doc.is_empty() => quote!(<::attn::__private::lang::lints::Derived<#ty>>::DOC),
        doc => quote!(#doc),
    };
    let hooks = variant.hooks.iter().map(|h| {
        let kind = syn::Ident::new(&h.name.to_upper_camel_case(), item.impl_token.span());
        let cuda = &h.cuda;
        quote!(::attn::__private::lang::HookText { hook: ::attn::__private::lang::Hook::#kind, cuda: #cuda })
    });
    let coordinates = variant.coordinates.iter().map(|CoordinateRead { hook, coordinate, is_index }| {
        let hook = syn::Ident::new(&hook.to_upper_camel_case(), item.impl_token.span());
        let (lang, fields) = (quote!(::attn::__private::lang), quote!(coordinate: #coordinate, is_index: #is_index));
        quote!(#lang::desc::CoordinateRead { hook: #lang::Hook::#hook, #fields })
    });
    let consts = descriptor::consts(&variant.links, |path| without_self(path, ty));
    let helpers = descriptor::helpers(&variant.links, syn::Path::clone);
    let types = descriptor::types(&variant.links, syn::Path::clone);
    let divisors = variant.used.divisors.keys();
    let read = variant.used.params.iter().map(String::as_str);
    let notes = notes::of(item, &variant.used, read);
    let derived = quote!(<::attn::__private::lang::lints::Derived<#ty>>);
    let fields = quote!(#derived::FIELDS);
    let spaces = spaces::checks(&variant.deferred, &variant.links, &fields, |path| without_self(path, ty));
    let (stores, slots) = (variant.used.stores, variant.used.slots);
    let names: Vec<&str> = variant.hooks.iter().map(|h| h.name.as_str()).collect();
    let parts = compose_part::part_impl(without_group(ty), variant.normalizer, &names);
    let cfg = descriptor::cfg(&item.attrs);
    let (mask, mask_over) = descriptor::mask(&variant.mask, &variant.links);
    quote! {
        #(#cfg)*
        const _: () = {
            use ::attn::__private::lang::lints::NotDerived as _;
            #(#constants)*
            static DESC: ::attn::__private::lang::VariantDesc = ::attn::__private::lang::VariantDesc {
                name: #name,
                type_name: #type_name,
                doc: #doc,
                file: #file,
                line: #line,
                hooks: &[#(#hooks),*],
                normalizer: #derived::NORMALIZER,
                max_floor: #derived::MAX_FLOOR,
                fields: #fields,
                mask: #mask,
                bias: #bias,
                slope: #slope,
                bias_row: #bias_row,
                bound: #bound,
                divisors: &[#(#divisors),*],
                stores: #stores,
                slots: #slots,
                coordinates: &[#(#coordinates),*],
                device_fns: #helpers,
                types: #types,
                consts: #consts,
                make: ::attn::__private::make::<#ty>,
                text: ::core::option::Option::None,
            };
            #[automatically_derived]
            impl ::attn::__private::lang::Described for #ty {
                fn desc() -> &'static ::attn::__private::lang::VariantDesc {
                    &DESC
                }
                #mask_over
            }
            #parts
            ::attn::__private::submit!(#ty);
            #notes
            #spaces
        };
    }
}

#[cfg(test)]
mod tests;
