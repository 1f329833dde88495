//! Arguments of `#[attention_variant(name = "windowed", instances(4, 8))]`.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{Token, parse::Parser as _, punctuated::Punctuated};

use crate::{messages, report::Report};

/// The arguments.
#[derive(Default)]
pub(super) struct Attribute {
    /// The variant's name in expressions.
    pub(super) name: Option<String>,
    /// The constants of each instance of a generic variant.
    pub(super) instances: Vec<Instance>,
}

/// One instance: a value for each constant.
pub(super) struct Instance {
    pub(super) values: Vec<syn::Expr>,
    /// The source tokens.
    tokens: TokenStream,
}

/// Reads the arguments.
pub(super) fn read(attr: &TokenStream, report: &mut Report) -> Attribute {
    let mut read = Attribute::default();
    let metas = match Punctuated::<syn::Meta, Token![,]>::parse_terminated.parse2(attr.clone()) {
        Ok(metas) => metas,
        Err(_) => {
            report.on(attr, messages::ATTR);
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
                if !is_legal(&name.value()) {
                    report.on(name, messages::ATTR_NAME);
                } else if is_reserved(&name.value()) {
                    report.on(name, messages::RESERVED_NAME);
                }
                read.name = Some(name.value());
            }
            syn::Meta::List(list) if list.path.is_ident("instances") => {
                let values = Punctuated::<syn::Expr, Token![,]>::parse_terminated.parse2(list.tokens.clone());
                match values {
                    Ok(values) => read.instances.extend(values.into_iter().map(Instance::of)),
                    Err(_) => report.on(list, messages::ATTR),
                }
            }
            other => report.on(other, messages::ATTR),
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

    /// The suffix of the instance's name: `4`, `m1_true`. `None` when a value is not a number or bool.
    pub(super) fn suffix(&self) -> Option<String> {
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
pub(super) fn check(attribute: &Attribute, generics: &syn::Generics, report: &mut Report) {
    let mut consts = 0;
    for param in &generics.params {
        match param {
            syn::GenericParam::Const(_) => consts += 1,
            other => report.on(other, messages::GENERIC_VARIANT),
        }
    }
    if consts > 0 && attribute.instances.is_empty() {
        report.on(&generics.params, messages::NEEDS_INSTANCES);
    }
    for instance in &attribute.instances {
        if consts == 0 {
            report.on(&instance.tokens, messages::INSTANCES_OF_ONE);
        } else if instance.values.len() != consts {
            let want = match consts {
                1 => "one number".to_owned(),
                n => format!("{n} values in parentheses"),
            };
            report.on(&instance.tokens, format!("this variant is generic over {consts} constant(s): write {want}"));
        } else if instance.suffix().is_none() {
            report.on(&instance.tokens, messages::INSTANCE_VALUE);
        }
    }
}

/// Whether expressions can use this name for a variant.
pub(super) fn is_legal(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Whether the grammar of expressions has another meaning for the name (`attn_core::lang::keywords`).
pub(super) fn is_reserved(name: &str) -> bool {
    matches!(name, "true" | "false" | "inf" | "nan" | "or" | "not" | "remap" | "per_head" | "union")
}
