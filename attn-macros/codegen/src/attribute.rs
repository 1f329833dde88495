//! Arguments of `#[attention_variant(name = "windowed", instances(4, 8))]` and of `#[kv_format(..)]`.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{Token, parse::Parser as _, punctuated::Punctuated};

use crate::{budget, messages, report::Report};

/// Gives a message on variants the words of an attribute.
pub(crate) type Worded = fn(&str) -> String;

/// The words of a KV format.
pub(crate) fn of_format(message: &str) -> String {
    message.replace("#[attention_variant", "#[kv_format").replace("variant", "format").replace("soft_cap", "int4")
}

/// The arguments.
pub(crate) struct Attribute {
    /// Gives a message the words of the attribute.
    worded: Worded,
    /// The variant's name in expressions.
    pub(crate) name: Option<String>,
    /// The constants of each instance of a generic variant.
    pub(crate) instances: Vec<Instance>,
}

/// One instance: a value for each constant.
pub(crate) struct Instance {
    pub(crate) values: Vec<syn::Expr>,
    /// The source tokens.
    tokens: TokenStream,
}

/// Reads the arguments.
pub(crate) fn read(attr: &TokenStream, worded: Worded, report: &mut Report) -> Attribute {
    let mut read = Attribute { worded, name: None, instances: Vec::new() };
    let metas = match Punctuated::<syn::Meta, Token![,]>::parse_terminated.parse2(attr.clone()) {
        Ok(metas) => metas,
        Err(_) => {
            report.on(attr, worded(messages::ATTR));
            return read;
        }
    };
    for meta in metas {
        match &meta {
            syn::Meta::NameValue(syn::MetaNameValue {
                path,
                value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(name), .. }),
                ..
            }) if path.is_ident("name") => {
                if read.name.is_some() {
                    report.on(&meta, worded(messages::ATTR_TWICE));
                } else if !is_legal(&name.value()) {
                    report.on(name, worded(messages::ATTR_NAME));
                } else if is_reserved(&name.value()) {
                    report.on(name, worded(messages::RESERVED_NAME));
                }
                read.name = Some(name.value());
            }
            syn::Meta::List(list) if list.path.is_ident("instances") => {
                let values = Punctuated::<syn::Expr, Token![,]>::parse_terminated.parse2(list.tokens.clone());
                match values {
                    Ok(values) => read.instances.extend(values.into_iter().map(Instance::of)),
                    Err(_) => report.on(list, worded(messages::ATTR)),
                }
            }
            other => report.on(other, worded(messages::ATTR)),
        }
    }
    read
}

impl Instance {
    fn of(value: syn::Expr) -> Instance {
        let tokens = value.to_token_stream();
        let values = match value {
            syn::Expr::Tuple(tuple) => tuple.elems.into_iter().collect(),
            value => vec![value],
        };
        Instance { values, tokens }
    }

    /// The constants of an impl as items.
    pub(crate) fn constants(&self, generics: &syn::Generics) -> Vec<syn::ItemConst> {
        let consts = generics.const_params().zip(&self.values).filter_map(|(param, value)| {
            let (ident, ty) = (&param.ident, &param.ty);
            syn::parse2(quote::quote!(#[allow(dead_code)] const #ident: #ty = #value;)).ok()
        });
        consts.collect()
    }

    /// The suffix of the instance's name: `4`, `m1_true`. `None` when a value is not a number or bool.
    pub(crate) fn suffix(&self) -> Option<String> {
        let texts: Option<Vec<String>> = self.values.iter().map(text).collect();
        texts.map(|texts| texts.join("_"))
    }
}

fn text(value: &syn::Expr) -> Option<String> {
    match value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(n), .. }) => Some(n.base10_digits().to_owned()),
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Bool(b), .. }) => Some(b.value.to_string()),
        syn::Expr::Unary(syn::ExprUnary { op: syn::UnOp::Neg(_), expr, .. }) => Some(format!("m{}", text(expr)?)),
        _ => None,
    }
}

/// Checks the instances against the constants of the impl.
pub(crate) fn check(attribute: &Attribute, generics: &syn::Generics, report: &mut Report) {
    let worded = attribute.worded;
    let mut consts = 0;
    for param in &generics.params {
        match param {
            syn::GenericParam::Const(_) => consts += 1,
            other => report.on(other, worded(messages::GENERIC_VARIANT)),
        }
    }
    if attribute.instances.len() > budget::INSTANCES {
        report.on(&generics.params, worded(&messages::too_many_instances(attribute.instances.len())));
        return;
    }
    if consts > 0 && attribute.instances.is_empty() {
        report.on(&generics.params, worded(messages::NEEDS_INSTANCES));
    }
    for instance in &attribute.instances {
        if consts == 0 {
            report.on(&instance.tokens, worded(messages::INSTANCES_OF_ONE));
        } else if instance.values.len() != consts {
            let want = match consts {
                1 => "one number".to_owned(),
                n => format!("{n} values in parentheses"),
            };
            report.on(
                &instance.tokens,
                worded(&format!("this variant is generic over {consts} constant(s): write {want}")),
            );
        } else if instance.suffix().is_none() {
            report.on(&instance.tokens, worded(messages::INSTANCE_VALUE));
        }
    }
}

/// Whether expressions can use this name for a variant.
pub(crate) fn is_legal(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Whether the grammar of expressions has another meaning for the name (`attn_core::lang::keywords`).
pub(crate) fn is_reserved(name: &str) -> bool {
    matches!(name, "true" | "false" | "inf" | "nan" | "or" | "not" | "remap" | "per_head" | "union")
}
