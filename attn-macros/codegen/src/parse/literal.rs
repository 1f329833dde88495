//! Literals as IR, exact as rustc reads them.

use super::ir_builder::IrBuilder;
use crate::ir::{Expr, Kind};
use crate::messages;
use crate::report::SpanRange;
use crate::types::Ty;

pub(super) fn value(builder: &mut IrBuilder<'_>, lit: &syn::Lit) -> Expr {
    let span = SpanRange::of(lit);
    match lit {
        syn::Lit::Bool(b) => Expr { kind: Kind::Bool(b.value), ty: Ty::Bool, span },
        syn::Lit::Int(i) if i.suffix() == "f32" => float(builder, lit, i.base10_digits()),
        syn::Lit::Int(i) => {
            let ty = match i.suffix() {
                "" => builder.shared.types.int(),
                "usize" => Ty::Usize,
                "isize" => return builder.refused(lit, messages::USIZE),
                "f64" => return builder.refused(lit, messages::FLOAT64),
                name => match Ty::number(name) {
                    Some(ty) => ty,
                    None => return builder.refused(lit, messages::LITERAL_SUFFIX),
                },
            };
            // in patterns, and from macros, the sign is part of the literal
            let digits = i.base10_digits();
            let positive = digits.strip_prefix('-');
            let Ok(value) = positive.unwrap_or(digits).parse::<u64>() else {
                return builder.refused(lit, messages::LITERAL_SUFFIX);
            };
            let value = Expr { kind: Kind::Int(value), ty: ty.clone(), span };
            match positive {
                Some(_) => Expr { kind: Kind::Neg(Box::new(value)), ty, span },
                None => value,
            }
        }
        syn::Lit::Float(f) if f.suffix() == "f64" => builder.refused(lit, messages::FLOAT64),
        syn::Lit::Float(f) => float(builder, lit, f.base10_digits()),
        syn::Lit::Byte(b) => Expr { kind: Kind::Int(u64::from(b.value())), ty: Ty::U8, span },
        syn::Lit::Str(_) | syn::Lit::ByteStr(_) | syn::Lit::CStr(_) | syn::Lit::Char(_) => {
            builder.refused(lit, messages::STRING)
        }
        _ => builder.refused(lit, messages::LITERAL),
    }
}

/// Rounds once, from decimal to f32, as rustc does.
fn float(builder: &mut IrBuilder<'_>, lit: &syn::Lit, digits: &str) -> Expr {
    match digits.parse::<f32>() {
        Ok(value) => Expr { kind: Kind::Float(value), ty: Ty::F32, span: SpanRange::of(lit) },
        Err(_) => builder.refused(lit, messages::LITERAL),
    }
}
