//! Reads a field: its name, its type as far as it is seen, and its attributes.

use proc_macro2::TokenStream;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, GenericArgument, Ident, Lit, Meta, PathArguments, Token, Type};

use super::messages;
use crate::report::Report;

/// One field.
pub(super) struct Field {
    pub(super) ident: Ident,
    /// Without `r#`.
    pub(super) name: String,
    pub(super) ty: Type,
    pub(super) kind: Kind,
    pub(super) doc: String,
    pub(super) default: Option<Written<Expr>>,
    pub(super) require: Option<Written<Expr>>,
    pub(super) shape: Option<Written<Vec<Expr>>>,
}

/// What the type's name says.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Integer,
    Bool,
    /// f32, or a type that the compiler will refuse.
    OtherScalar,
    /// Of this rank.
    Tensor(usize),
}

/// An argument, and how it was written.
pub(super) struct Written<T> {
    pub(super) value: T,
    pub(super) text: String,
}

pub(super) fn read_all<'a>(fields: impl Iterator<Item = &'a syn::Field>, report: &mut Report) -> Vec<Field> {
    fields.filter_map(|field| read(field, report)).collect()
}

fn read(field: &syn::Field, report: &mut Report) -> Option<Field> {
    let ident = field.ident.clone()?;
    let kind = kind(&field.ty);
    let mut read = Field {
        name: ident.to_string().trim_start_matches("r#").to_owned(),
        ident,
        ty: field.ty.clone(),
        kind,
        doc: doc(&field.attrs),
        default: None,
        require: None,
        shape: None,
    };
    if !read.name.is_ascii() {
        report.on(&read.ident, messages::NAME);
    }
    for attr in &field.attrs {
        if attr.path().is_ident("default") {
            set(&mut read.default, attr, syn::parse2::<Expr>, messages::DEFAULT, report);
        } else if attr.path().is_ident("require") {
            set(&mut read.require, attr, syn::parse2::<Expr>, messages::REQUIRE, report);
        } else if attr.path().is_ident("shape") {
            let extents = |tokens| {
                let list = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens)?;
                Ok(list.into_iter().collect::<Vec<_>>())
            };
            set(&mut read.shape, attr, extents, messages::SHAPE, report);
            if !matches!(kind, Kind::Tensor(_)) {
                report.on(attr, messages::SHAPE_ON_SCALAR);
            }
        }
    }
    if seen_wrong(&field.ty) {
        report.on(&field.ty, messages::TYPE);
    }
    if let Kind::Tensor(rank) = kind {
        match &read.shape {
            // not said again where the attribute itself is wrong
            None if !field.attrs.iter().any(|a| a.path().is_ident("shape")) => {
                report.on(&field.ty, messages::SHAPE_MISSING);
            }
            Some(shape) if shape.value.len() != rank => {
                report.on(&field.ty, messages::rank(&format!("Tensor{rank}"), rank, shape.value.len()));
            }
            _ => {}
        }
    }
    Some(read)
}

/// Reads one attribute's argument.
fn set<T>(
    slot: &mut Option<Written<T>>,
    attr: &Attribute,
    parse: impl FnOnce(TokenStream) -> syn::Result<T>,
    usage: &str,
    report: &mut Report,
) {
    if slot.is_some() {
        return report.on(attr, messages::TWICE);
    }
    let Meta::List(list) = &attr.meta else {
        return report.on(attr, usage);
    };
    if list.tokens.is_empty() {
        return report.on(attr, usage);
    }
    match parse(list.tokens.clone()) {
        Ok(value) => *slot = Some(Written { value, text: as_written(list) }),
        Err(error) => report.at(error.span(), format!("{error}; {usage}")),
    }
}

/// The text between the brackets, on one line.
fn as_written(list: &syn::MetaList) -> String {
    let span = list.delimiter.span().join();
    let source = span.source_text().unwrap_or_default();
    let inner = source.strip_prefix(['(', '[', '{']).and_then(|s| s.strip_suffix([')', ']', '}']));
    // expansions of other macros have no source text
    let text = inner.map_or_else(|| list.tokens.to_string(), str::to_owned);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn kind(ty: &Type) -> Kind {
    let Type::Path(path) = ty else {
        return Kind::OtherScalar;
    };
    match path.path.segments.last().map(|s| s.ident.to_string()).as_deref() {
        Some("i32" | "u32") => Kind::Integer,
        Some("bool") => Kind::Bool,
        Some("Tensor1") => Kind::Tensor(1),
        Some("Tensor2") => Kind::Tensor(2),
        _ => Kind::OtherScalar,
    }
}

/// Types that no parameter has; the compiler refuses the rest, but not in one sentence.
fn seen_wrong(ty: &Type) -> bool {
    const WRONG: [&str; 17] = [
        "f64", "f16", "bf16", "i8", "i16", "i64", "i128", "isize", "u8", "u16", "u64", "u128", "usize", "char",
        "String", "Vec", "Option",
    ];
    let Type::Path(path) = ty else { return true };
    let Some(last) = path.path.segments.last() else { return true };
    match &last.arguments {
        PathArguments::AngleBracketed(args) if last.ident == "Tensor1" || last.ident == "Tensor2" => {
            args.args.iter().any(|arg| match arg {
                GenericArgument::Type(elem) => matches!(kind(elem), Kind::Bool | Kind::Tensor(_)) || seen_wrong(elem),
                _ => false,
            })
        }
        _ => WRONG.iter().any(|wrong| last.ident == wrong),
    }
}

/// The doc comment, its lines joined as written.
pub(super) fn doc(attrs: &[Attribute]) -> String {
    let lines: Vec<String> = (attrs.iter())
        .filter_map(|attr| match &attr.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
                Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let lines: Vec<&str> = lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n").trim().to_owned()
}
