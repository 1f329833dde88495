//! Reads a field: its name, its type as far as it is visible, and its attributes.

use proc_macro2::TokenStream;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, GenericArgument, Ident, Lit, Meta, PathArguments, Token, Type};

use super::messages;
use crate::{parse::docs, report::Report};

/// The parameters of a variant: what the derive prints, and what a reader of Rust text makes descriptors of.
#[derive(Debug, Default)]
pub struct ParamsModel {
    /// The doc comment of the struct.
    pub doc: String,
    /// The parameters.
    pub fields: Vec<Field>,
}

/// One parameter.
#[derive(Debug)]
pub struct Field {
    pub(super) ident: Ident,
    /// The name without `r#`.
    pub name: String,
    /// The type as written.
    pub ty: Type,
    /// The kind of parameter that the type's name shows.
    pub kind: Kind,
    /// The doc comment.
    pub doc: String,
    /// `#[default(..)]`.
    pub default: Option<AttrArgument<Expr>>,
    /// `#[require(..)]`.
    pub require: Option<AttrArgument<Expr>>,
    /// `#[shape(..)]`.
    pub shape: Option<AttrArgument<Vec<Expr>>>,
    /// `#[monotone]`.
    pub monotone: bool,
    /// `#[mutable]`.
    pub mutable: bool,
    /// The axes (bit 0: the first) that grow with a count of the batch.
    pub growing_axes: u8,
}

/// The kind of parameter that the type's name shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// i32 or u32.
    Integer,
    /// bool.
    Bool,
    /// f32, or a type that rustc refuses.
    OtherScalar,
    /// A parameter tensor of this rank.
    Tensor(usize),
    /// An output tensor of this rank.
    Out(usize),
}

impl Kind {
    /// The rank of a tensor.
    pub(super) fn rank(self) -> Option<usize> {
        match self {
            Kind::Tensor(rank) | Kind::Out(rank) => Some(rank),
            _ => None,
        }
    }

    fn name(self) -> String {
        match self {
            Kind::Tensor(rank) => format!("Tensor{rank}"),
            Kind::Out(rank) => format!("OutTensor{rank}"),
            _ => String::new(),
        }
    }
}

impl Field {
    /// The name of a scalar's type, or of a tensor's elements.
    pub fn elem(&self) -> Option<String> {
        let segment = last(&self.ty)?;
        if self.kind.rank().is_none() {
            return Some(segment.ident.to_string());
        }
        let PathArguments::AngleBracketed(args) = &segment.arguments else { return None };
        let types = args.args.iter().filter_map(|arg| match arg {
            GenericArgument::Type(ty) => last(ty),
            _ => None,
        });
        types.last().map(|elem| elem.ident.to_string())
    }
}

/// The argument of an attribute, and its source text.
#[derive(Debug)]
pub struct AttrArgument<T> {
    /// What it says.
    pub value: T,
    /// The text between the brackets, on one line.
    pub text: String,
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
        monotone: false,
        mutable: false,
        growing_axes: 0,
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
            if kind.rank().is_none() {
                report.on(attr, messages::SHAPE_ON_SCALAR);
            }
        } else if attr.path().is_ident("monotone") {
            match (&attr.meta, kind) {
                _ if read.monotone => report.on(attr, messages::TWICE),
                (Meta::Path(_), Kind::Tensor(1..)) => read.monotone = true,
                (Meta::Path(_), _) => report.on(attr, messages::MONOTONE_ON),
                _ => report.on(attr, messages::MONOTONE),
            }
        } else if attr.path().is_ident("mutable") {
            match (&attr.meta, kind) {
                _ if read.mutable => report.on(attr, messages::TWICE),
                (Meta::Path(_), Kind::Tensor(_)) => read.mutable = true,
                (Meta::Path(_), _) => report.on(attr, messages::MUTABLE_ON),
                _ => report.on(attr, messages::MUTABLE),
            }
        }
    }
    if read.monotone && read.mutable {
        report.on(&read.ident, messages::MUTABLE_MONOTONE);
    }
    if is_never_a_parameter(&field.ty) {
        report.on(&field.ty, messages::TYPE);
    }
    if let Some(rank) = kind.rank() {
        match &read.shape {
            None if rank == 0 => {}
            // a wrong attribute is already reported
            None if !field.attrs.iter().any(|a| a.path().is_ident("shape")) => {
                report.on(&field.ty, messages::SHAPE_MISSING);
            }
            Some(shape) if shape.value.len() != rank => {
                report.on(&field.ty, messages::rank(&kind.name(), rank, shape.value.len()));
            }
            _ => {}
        }
    }
    Some(read)
}

/// Reads one attribute's argument.
fn set<T>(
    slot: &mut Option<AttrArgument<T>>,
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
        Ok(value) => *slot = Some(AttrArgument { value, text: as_written(list) }),
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
    let Some(last) = last(ty) else { return Kind::OtherScalar };
    let name = last.ident.to_string();
    // `Tensor2<f32>`, `Tensor<f32, 2>`
    let rank = |base: &str| {
        let digits = name.strip_prefix(base)?;
        if digits.is_empty() { literal(&last.arguments) } else { digits.parse::<usize>().ok() }
    };
    match name.as_str() {
        "i32" | "u32" => Kind::Integer,
        "bool" => Kind::Bool,
        _ => match (rank("Tensor"), rank("OutTensor")) {
            (Some(rank @ 0..=4), _) => Kind::Tensor(rank),
            (_, Some(rank @ 1..=4)) => Kind::Out(rank),
            _ => Kind::OtherScalar,
        },
    }
}

fn last(ty: &Type) -> Option<&syn::PathSegment> {
    if let Type::Path(path) = ty { path.path.segments.last() } else { None }
}

/// The rank as a literal among the arguments of a type.
fn literal(arguments: &PathArguments) -> Option<usize> {
    let PathArguments::AngleBracketed(args) = arguments else { return None };
    args.args.iter().find_map(|arg| match arg {
        GenericArgument::Const(Expr::Lit(ExprLit { lit: Lit::Int(rank), .. })) => rank.base10_parse().ok(),
        _ => None,
    })
}

/// Whether no parameter has this type. rustc refuses other wrong types too, but not in one sentence.
fn is_never_a_parameter(ty: &Type) -> bool {
    const WRONG: [&str; 14] =
        ["f64", "i8", "i16", "i64", "i128", "isize", "u16", "u64", "u128", "usize", "char", "String", "Vec", "Option"];
    const WRONG_SCALAR: [&str; 6] = ["f16", "bf16", "u8", "F8E4M3", "F8E5M2", "Bits"];
    let Some(segment) = last(ty) else { return true };
    let wrong_elem = |elem: &Type| match last(elem) {
        None => true,
        Some(elem_name) => kind(elem).rank().is_some() || WRONG.iter().any(|wrong| elem_name.ident == wrong),
    };
    if !is_tensor(segment) {
        return WRONG.iter().chain(&WRONG_SCALAR).any(|wrong| segment.ident == wrong);
    }
    let has_rank =
        segment.ident.to_string().ends_with(|c: char| c.is_ascii_digit()) || literal(&segment.arguments).is_some();
    let elems = match &segment.arguments {
        PathArguments::AngleBracketed(args) => args.args.iter().collect(),
        _ => Vec::new(),
    };
    has_rank && kind(ty).rank().is_none()
        || elems.into_iter().any(|arg| matches!(arg, GenericArgument::Type(elem) if wrong_elem(elem)))
}

/// Whether it is `Tensor`, `Tensor7`, `OutTensor2`: a tensor of any rank.
fn is_tensor(segment: &syn::PathSegment) -> bool {
    let name = segment.ident.to_string();
    matches!(name.trim_end_matches(|c: char| c.is_ascii_digit()), "Tensor" | "OutTensor")
}

/// The doc comment, with its lines as written.
pub(super) fn doc(attrs: &[Attribute]) -> String {
    let lines: Vec<String> = docs(attrs).map(|text| text.strip_prefix(' ').unwrap_or(&text).to_owned()).collect();
    lines.join("\n").trim().to_owned()
}
