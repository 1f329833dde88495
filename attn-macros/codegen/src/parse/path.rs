//! Paths as values: locals, constants, and the associated constants of numbers.

use super::context::ConstLink;
use super::ir_builder::IrBuilder;
use super::syntax::{self, is_type_name, last_two};
use super::{device, module};
use crate::ir::{Expr, Kind};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{budget, messages, names};

pub(super) fn value(builder: &mut IrBuilder<'_>, e: &syn::ExprPath) -> Expr {
    let span = SpanRange::of(e);
    if e.qself.is_some() || e.path.segments.iter().any(|s| !s.arguments.is_empty()) {
        return builder.refused(e, messages::EXPRESSION);
    }
    if let Some(ident) = e.path.get_ident() {
        if ident == "self" {
            return builder.refused(e, messages::BARE_SELF);
        }
        if let Some(local) = builder.lookup(&ident.to_string()) {
            return Expr { kind: Kind::Local(local), ty: builder.locals[local].ty.clone(), span };
        }
    }
    if let Some(ident) = e.path.get_ident()
        && let Some((_, name, ty)) = builder.shared.generics.iter().find(|(rust, ..)| ident == rust)
    {
        return Expr { kind: Kind::Const(name.clone()), ty: ty.clone(), span };
    }
    if let Some(found) = module::constant(builder, &e.path) {
        return found;
    }
    if let Some((ty, last)) = last_two(&e.path) {
        if let Some(found) = assoc(&ty, &last) {
            return Expr { kind: found.0, ty: found.1, span };
        }
        if ty == "f64" {
            return builder.refused(e, messages::FLOAT64);
        }
        if is_type_name(&ty) && is_type_name(&last) && last.chars().any(char::is_lowercase) {
            return device::variant(builder, e, &last);
        }
    }
    constant(builder, e)
}

fn constant(builder: &mut IrBuilder<'_>, e: &syn::ExprPath) -> Expr {
    let Some(last) = e.path.segments.last().map(|s| s.ident.to_string()) else {
        return builder.error(SpanRange::of(e));
    };
    if last.chars().any(char::is_lowercase) {
        if is_type_name(&last) {
            return builder.refused(e, messages::BARE_VARIANT);
        }
        return builder.refused(e, format!("`{last}` {}", messages::UNKNOWN_NAME));
    }
    let key = syntax::key(&e.path);
    let ty = builder.shared.types.named(key.clone());
    if !budget::spend(builder.shared.links.consts.len()) {
        return builder.error(SpanRange::of(e));
    }
    let known = builder.shared.links.consts.iter().position(|c| syntax::key(&c.path) == key);
    let name = match known {
        Some(i) => builder.shared.links.consts[i].name.clone(),
        None => {
            // two paths with the same last segment are two constants; helpers are in one struct with their callers,
            // whose constants may have the same name
            let base = names::member(&match &builder.shared.this_fn {
                Some(helper) => format!("{helper}_{last}"),
                None => last,
            });
            let taken = |name: &String| {
                budget::spend(builder.shared.links.consts.len())
                    && builder.shared.links.consts.iter().any(|c| c.name == *name)
            };
            let numbered = (2..).map(|n| format!("{base}{n}"));
            let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(base);
            builder.shared.links.consts.push(ConstLink { name: name.clone(), path: e.path.clone() });
            name
        }
    };
    Expr { kind: Kind::Const(name), ty, span: SpanRange::of(e) }
}

/// The associated constants of numbers, such as `f32::MAX`.
fn assoc(ty: &str, name: &str) -> Option<(Kind, Ty)> {
    let float = |kind| Some((kind, Ty::F32));
    match (ty, name) {
        ("f32", "NEG_INFINITY") => float(Kind::NegInfinity),
        ("f32", "INFINITY") => float(Kind::Builtin("F32_INFINITY")),
        ("f32", "NAN") => float(Kind::Builtin("F32_NAN")),
        ("f32", "MAX") => float(Kind::Float(f32::MAX)),
        ("f32", "MIN") => float(Kind::Float(f32::MIN)),
        ("f32", "EPSILON") => float(Kind::Float(f32::EPSILON)),
        ("f32", "MIN_POSITIVE") => float(Kind::Float(f32::MIN_POSITIVE)),
        ("i32", "MAX") => Some((Kind::Int(i32::MAX as u64), Ty::I32)),
        ("i32", "MIN") => Some((Kind::Builtin("I32_MIN"), Ty::I32)),
        ("u32", "MAX") => Some((Kind::Int(u64::from(u32::MAX)), Ty::U32)),
        ("u8", "MAX") => Some((Kind::Int(u64::from(u8::MAX)), Ty::U8)),
        ("i64", "MAX") => Some((Kind::Int(i64::MAX as u64), Ty::I64)),
        ("i64", "MIN") => Some((Kind::Builtin("I64_MIN"), Ty::I64)),
        ("u64", "MAX") => Some((Kind::Int(u64::MAX), Ty::U64)),
        ("u32", "MIN") => Some((Kind::Int(0), Ty::U32)),
        ("u8", "MIN") => Some((Kind::Int(0), Ty::U8)),
        ("u64", "MIN") => Some((Kind::Int(0), Ty::U64)),
        ("i32" | "u32", "BITS") => Some((Kind::Int(32), Ty::U32)),
        ("u8", "BITS") => Some((Kind::Int(8), Ty::U32)),
        ("u64" | "i64", "BITS") => Some((Kind::Int(64), Ty::U32)),
        _ => None,
    }
}
