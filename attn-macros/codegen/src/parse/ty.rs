//! Lowers types as written.

use super::{context::ItemContext, type_link};
use crate::{messages, types::Ty};

/// The type, or `None` after reporting an error.
pub(crate) fn of(ty: &syn::Type, shared: &mut ItemContext) -> Option<Ty> {
    match ty {
        syn::Type::Paren(t) => of(&t.elem, shared),
        syn::Type::Group(t) => of(&t.elem, shared),
        syn::Type::Tuple(t) if t.elems.is_empty() => Some(Ty::Unit),
        syn::Type::Tuple(t) if (2..=4).contains(&t.elems.len()) => {
            let elems: Vec<_> = t.elems.iter().map(|e| of(e, shared)).collect();
            let tuple = elems.into_iter().collect::<Option<Vec<_>>>().map(Ty::Tuple)?;
            match shared.types.is_too_large(&tuple) {
                true => refuse(t, messages::TYPE_TOO_LARGE, shared),
                false => Some(tuple),
            }
        }
        syn::Type::Tuple(t) => refuse(t, messages::TUPLE_SIZE, shared),
        syn::Type::Reference(t) if shared.module.is_some() && t.mutability.is_none() => of(&t.elem, shared),
        syn::Type::Reference(t) => refuse(t, messages::REFERENCE, shared),
        syn::Type::Array(t) => match &t.len {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(len), .. }) => {
                let Ok(len) = len.base10_parse() else { return refuse(&t.len, messages::ARRAY_TOO_LONG, shared) };
                let array = Ty::Array(Box::new(of(&t.elem, shared)?), len);
                match shared.types.has_too_many_elements(&array) {
                    true => refuse(&t.len, messages::ARRAY_TOO_LONG, shared),
                    false => Some(array),
                }
            }
            len => refuse(len, messages::ARRAY_LENGTH, shared),
        },
        syn::Type::Path(t) if t.qself.is_none() => {
            let last = t.path.segments.last()?;
            if let Some(found) = named_type(last, shared) {
                return Some(found);
            }
            if !last.arguments.is_empty() {
                return refuse(t, messages::TYPE, shared);
            }
            match last.ident.to_string().as_str() {
                "bool" => Some(Ty::Bool),
                "RowIndex" => Some(Ty::RowIndex),
                "LogitIndex" => Some(Ty::LogitIndex),
                "KvIndex" => Some(Ty::KvIndex),
                "RowState" => Some(Ty::RowState),
                "QueryTile" => Some(Ty::QueryTile),
                "f64" => refuse(t, messages::FLOAT64, shared),
                "usize" | "isize" => refuse(t, messages::USIZE, shared),
                name if FOREIGN.contains(&name) => refuse(t, messages::TYPE, shared),
                name => Ty::number(name).or_else(|| type_link::link(&t.path, shared)),
            }
        }
        ty => refuse(ty, messages::TYPE, shared),
    }
}

/// The type parameter, or the struct of the module around, or a type that the module imports and CUDA has too.
fn named_type(name: &syn::PathSegment, shared: &mut ItemContext) -> Option<Ty> {
    let module = shared.module.clone()?;
    let ident = name.ident.to_string();
    if shared.type_params.iter().any(|(param, _)| *param == ident) {
        return Some(Ty::Param(ident));
    }
    let mut args = Vec::new();
    if let syn::PathArguments::AngleBracketed(given) = &name.arguments {
        for arg in &given.args {
            if let syn::GenericArgument::Type(given) = arg {
                args.push(of(given, shared)?);
            }
        }
    }
    if module.structs.contains_key(&ident) {
        return Some(Ty::Struct(ident, args));
    }
    module.imports.contains(&ident).then_some(Ty::Device(ident))
}

/// Types of the standard library, which users cannot mark with `#[device_type]`.
const FOREIGN: &[&str] = &["i8", "i16", "i128", "u16", "u128", "f16", "bf16", "char", "str", "String", "Self"];

fn refuse(tokens: &impl quote::ToTokens, message: &str, shared: &mut ItemContext) -> Option<Ty> {
    shared.report.on(tokens, message);
    None
}
