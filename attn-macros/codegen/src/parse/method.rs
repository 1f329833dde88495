//! Calls of methods of numbers (`x.max(y)`), by the table of [`methods`](crate::methods).

use super::ir_builder::IrBuilder;
use super::syntax::{is_self, strip};
use super::{module, packed, row, tensor};
use crate::ir::{Expr, Kind};
use crate::methods::On::{Float, Int};
use crate::methods::Sort::{self, Bool, I32, Pair, Same, U32, Unsigned};
use crate::methods::{METHODS, NOT_AVAILABLE};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{hook, messages, names};

pub(super) fn call(builder: &mut IrBuilder<'_>, e: &syn::ExprMethodCall) -> Expr {
    if is_self(&e.receiver) {
        return builder.refused(e, messages::METHOD_ON_SELF);
    }
    if hook::NAMES.iter().any(|hook| e.method == hook) {
        return builder.refused(e, messages::OTHER_HOOK);
    }
    if let Some(done) = tensor::method(builder, e) {
        return done;
    }
    if matches!(strip(&e.receiver), syn::Expr::Range(_)) {
        return builder.refused(&e.method, messages::ITERATOR);
    }
    let receiver = builder.expr(&e.receiver);
    if matches!(receiver.kind, Kind::Error) {
        return receiver;
    }
    if builder.resolve(&receiver.ty) == Ty::Row {
        return row::method(builder, e, &receiver);
    }
    if builder.resolve(&receiver.ty).is_stored_row() {
        return packed::method(builder, e, &receiver);
    }
    if matches!(builder.resolve(&receiver.ty), Ty::Device(_)) && e.method != "clone" {
        return builder.refused(&e.method, messages::METHOD_OF_TYPE);
    }
    if let Some(found) = module::trait_method(builder, e, &receiver) {
        return module::trait_call(builder, e, receiver, found);
    }
    let args: Vec<&syn::Expr> = e.args.iter().collect();
    number_method(builder, e, receiver, &e.method, &args)
}

pub(super) fn number_method(
    builder: &mut IrBuilder<'_>,
    whole: &impl quote::ToTokens,
    receiver: Expr,
    ident: &syn::Ident,
    args: &[&syn::Expr],
) -> Expr {
    let name = ident.to_string();
    let Some(method) = METHODS.iter().find(|m| m.name == name) else {
        for arg in args {
            builder.expr(arg);
        }
        return unknown_method(builder, ident, &name);
    };
    let ty = receiver.ty.clone();
    if method.on == Float {
        builder.unify(&Ty::F32, &ty, receiver.span);
    }
    let resolved = builder.resolve(&ty);
    if method.on == Int && resolved == Ty::F32 {
        return builder.refused(ident, format!("`{name}` is a method of integers, and this is an f32"));
    }
    if method.on == Float && resolved != Ty::F32 {
        return builder.refused(ident, format!("`{name}` is a method of f32: write `(x as f32).{name}(..)`"));
    }
    if args.len() != method.args.len() {
        return builder.refused(ident, format!("`{name}` takes {} argument(s)", method.args.len()));
    }
    let mut values = vec![receiver];
    for (arg, sort) in args.iter().zip(method.args) {
        let want = type_of(builder, *sort, &ty);
        let value = builder.expr_as(arg, &want);
        values.push(value);
    }
    let result = type_of(builder, method.result, &ty);
    Expr { kind: Kind::Call(method.name, values), ty: result, span: SpanRange::of(whole) }
}

fn type_of(builder: &mut IrBuilder<'_>, sort: Sort, receiver: &Ty) -> Ty {
    match sort {
        Same => receiver.clone(),
        Bool => Ty::Bool,
        U32 => Ty::U32,
        I32 => Ty::I32,
        Pair => Ty::pair(),
        Unsigned => match builder.resolve(receiver) {
            Ty::I32 => Ty::U32,
            Ty::I64 => Ty::U64,
            ty @ (Ty::U32 | Ty::U8 | Ty::U64) => ty,
            _ => builder.shared.types.external(),
        },
    }
}

fn unknown_method(builder: &mut IrBuilder<'_>, ident: &syn::Ident, name: &str) -> Expr {
    let hint = match name {
        "erf" => "write `math::erf(x)`".to_owned(),
        "log" => "write `x.ln() / base.ln()`, or `log2`, `log10`".to_owned(),
        "ilog2" => "write `31 - x.leading_zeros()` of a positive 32-bit integer".to_owned(),
        "to_degrees" | "to_radians" => "multiply by a constant".to_owned(),
        "filter" | "fold" | "rev" | "step_by" | "take" | "skip" | "any" | "all" | "enumerate" | "chain" | "collect" => {
            return builder.refused(ident, messages::ITERATOR);
        }
        name if NOT_AVAILABLE.contains(&name) => {
            return builder.refused(ident, format!("`{name}` is not available in a hook"));
        }
        "unwrap" | "expect" | "unwrap_or" => "a hook cannot fail, and has no Option".to_owned(),
        "iter" | "into_iter" | "iter_mut" => "write `for i in a..b`".to_owned(),
        "clone" | "to_owned" => "values are copied: leave it out".to_owned(),
        "into" | "try_into" => "write a cast: `x as f32`".to_owned(),
        "len" => "pass the length as a parameter".to_owned(),
        _ => match names::nearest(name, METHODS.iter().map(|m| m.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "the reference lists the methods that a hook has".to_owned(),
        },
    };
    builder.refused(ident, format!("`{name}` is not available in a hook: {hint}"))
}
