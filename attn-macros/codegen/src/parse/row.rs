//! Methods of rows (`map`, `zip`, `dot`, rotations, reductions), and their closures.

use super::{ir_builder::IrBuilder, syntax::strip, ty};
use crate::ir::{Block, Expr, Kind};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{messages, names};

/// The methods of a row.
const METHODS: &[&str] =
    &["dim", "map", "rotate_half", "rotate_pairs", "sum", "sum_sq", "max_abs", "dot", "zip", "hadamard"];

/// An argument of a row's method.
enum Arg {
    /// A number of elements.
    Count,
    /// A closure that gives `(cos, sin)`.
    Turn,
    /// A closure with these parameters and this result.
    Closure(&'static [Ty], Ty),
}

pub(super) fn method(builder: &mut IrBuilder<'_>, e: &syn::ExprMethodCall, receiver: &Expr) -> Expr {
    let span = SpanRange::of(e);
    let Kind::Local(row) = receiver.kind else {
        return builder.refused(e, messages::EXPRESSION);
    };
    let name = e.method.to_string();
    let Some(method) = METHODS.iter().copied().find(|m| *m == name) else {
        let hint = names::nearest(&name, METHODS.iter().copied())
            .map_or_else(|| format!("there are {}", METHODS.join(", ")), |n| format!("did you mean `{n}`?"));
        return builder.refused(&e.method, format!("a row has no `{name}`: {hint}"));
    };
    let (want, result): (&[Arg], Ty) = match method {
        "dim" => (&[], Ty::I32),
        "map" => (&[Arg::Closure(&[Ty::I32, Ty::F32], Ty::F32)], Ty::Unit),
        "zip" => (&[Arg::Closure(&[Ty::I32], Ty::F32), Arg::Closure(&[Ty::I32, Ty::F32, Ty::F32], Ty::F32)], Ty::Unit),
        "dot" => (&[Arg::Closure(&[Ty::I32], Ty::F32)], Ty::F32),
        "hadamard" => (&[], Ty::Unit),
        "rotate_half" | "rotate_pairs" => (&[Arg::Count, Arg::Turn], Ty::Unit),
        _ => (&[], Ty::F32),
    };
    if e.args.len() != want.len() {
        return builder.refused(&e.method, format!("`{name}` takes {} argument(s)", want.len()));
    }
    let args = e.args.iter().zip(want).map(|(arg, want)| match want {
        Arg::Count => builder.expr_as(arg, &Ty::I32),
        Arg::Turn => closure(builder, arg, &[Ty::I32], Ty::pair()),
        Arg::Closure(params, ret) => closure(builder, arg, params, ret.clone()),
    });
    let args = args.collect();
    Expr { kind: Kind::Row(row, method, args), ty: result, span }
}

pub(super) fn closure(builder: &mut IrBuilder<'_>, expr: &syn::Expr, params: &[Ty], ret: Ty) -> Expr {
    let syn::Expr::Closure(closure) = strip(expr) else {
        return builder.refused(expr, messages::CLOSURE_WANTED);
    };
    if closure.inputs.len() != params.len() {
        return builder.refused(expr, format!("this closure takes {} argument(s)", params.len()));
    }
    builder.scoped(|r| {
        let mut locals = Vec::new();
        for (pat, want) in closure.inputs.iter().zip(params) {
            let pat = match pat {
                syn::Pat::Type(p) => {
                    let _ = ty::of(&p.ty, r.shared);
                    &*p.pat
                }
                pat => pat,
            };
            let local = r.parameter(pat, want, messages::CLOSURE_PARAM);
            locals.push((local, want.clone()));
        }
        r.returns.push(ret.clone());
        let body = match strip(&closure.body) {
            syn::Expr::Block(b) => r.block(&b.block, &ret),
            value => Block::of(r.expr_as(value, &ret)),
        };
        r.returns.pop();
        Expr { kind: Kind::Closure { params: locals, ret, body }, ty: Ty::Unit, span: SpanRange::of(expr) }
    })
}
