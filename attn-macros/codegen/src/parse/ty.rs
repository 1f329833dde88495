//! Types as written.

use crate::{messages, report::Report, types::Ty};

/// The type, or `None` after a report.
pub(crate) fn of(ty: &syn::Type, report: &mut Report) -> Option<Ty> {
    match ty {
        syn::Type::Paren(t) => of(&t.elem, report),
        syn::Type::Group(t) => of(&t.elem, report),
        syn::Type::Tuple(t) if t.elems.is_empty() => Some(Ty::Unit),
        syn::Type::Tuple(t) if (2..=4).contains(&t.elems.len()) => {
            let elems: Vec<_> = t.elems.iter().map(|e| of(e, report)).collect();
            elems.into_iter().collect::<Option<Vec<_>>>().map(Ty::Tuple)
        }
        syn::Type::Tuple(t) => refuse(t, messages::TUPLE_SIZE, report),
        syn::Type::Reference(t) => refuse(t, messages::REFERENCE, report),
        syn::Type::Array(t) => match &t.len {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(len), .. }) => {
                let len = len.base10_parse().ok()?;
                Some(Ty::Array(Box::new(of(&t.elem, report)?), len))
            }
            len => refuse(len, messages::ARRAY_LENGTH, report),
        },
        syn::Type::Path(t) if t.qself.is_none() => {
            let last = t.path.segments.last()?;
            if !last.arguments.is_empty() {
                return refuse(t, messages::TYPE, report);
            }
            match last.ident.to_string().as_str() {
                "f32" => Some(Ty::F32),
                "i32" => Some(Ty::I32),
                "u32" => Some(Ty::U32),
                "u8" => Some(Ty::U8),
                "u64" => Some(Ty::U64),
                "bool" => Some(Ty::Bool),
                "RowIndex" => Some(Ty::RowIndex),
                "LogitIndex" => Some(Ty::LogitIndex),
                "KvIndex" => Some(Ty::KvIndex),
                "RowState" => Some(Ty::RowState),
                "QueryTile" => Some(Ty::QueryTile),
                "f64" => refuse(t, messages::FLOAT64, report),
                "usize" | "isize" => refuse(t, messages::USIZE, report),
                _ => refuse(t, messages::TYPE, report),
            }
        }
        ty => refuse(ty, messages::TYPE, report),
    }
}

fn refuse(tokens: &impl quote::ToTokens, message: &str, report: &mut Report) -> Option<Ty> {
    report.on(tokens, message);
    None
}
