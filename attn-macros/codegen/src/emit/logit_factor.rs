//! Factors of a logit and of a key's distance.
//!
//! Both are computed once per logit, so their multiplications are deferred. A logit leaves the tensor cores without
//! `sm_scale`, and a key's position is a constant plus an offset that the whole tile shares. `Logit` and `KeyDistance`
//! (lang/types.cuh, lang/coordinates.cuh) take such a factor before they become floats, so that it is folded into the
//! scale.

use super::precedence::{CppExpr, UNARY};
use super::writer::CudaWriter;
use crate::ir::{Expr, Function, Kind, LocalId, Op};
use crate::types::Ty;

/// The logit argument of a transform, unless the hook changes it in place.
pub(super) fn logit_of(f: &Function) -> Option<LocalId> {
    let argument = f.args.first().filter(|_| f.name == "logits_transform")?;
    argument.local.filter(|local| !f.locals[*local].mutable)
}

/// The operands of a plain operator. A logit or distance stays a `Logit` or `KeyDistance` where it meets a factor.
pub(super) fn factors(writer: &mut CudaWriter<'_>, op: Op, a: &Expr, b: &Expr) -> (CppExpr, CppExpr) {
    let is_factor = |w: &CudaWriter<'_>, e: &Expr| w.settled(&e.ty) == Ty::F32;
    if matches!(op, Op::Mul | Op::Div) && is_factor(writer, a) && is_factor(writer, b) {
        if let Some(a) = factor(writer, op, a) {
            return (a, writer.text(b));
        }
        if op == Op::Mul
            && let Some(b) = factor(writer, op, b)
        {
            return (writer.text(a), b);
        }
    }
    (writer.text(a), writer.text(b))
}

/// A term of a sum: a factor times a distance becomes a `KeyTerm`, anything else a float.
pub(super) fn bias_term(writer: &mut CudaWriter<'_>, e: &Expr) -> CppExpr {
    if let Kind::Binary(Op::Mul, a, b) = &e.kind {
        for (factor, distance) in [(a, b), (b, a)] {
            if let Kind::Cast(inner, Ty::F32) = &distance.kind
                && let Some(distance) = key_distance(writer, inner)
            {
                let factor = writer.value(factor);
                return CppExpr::atom(format!("KeyTerm({factor}, {})", distance.text));
            }
        }
    }
    let value = writer.value(e);
    CppExpr::atom(format!("float({value})"))
}

fn factor(writer: &mut CudaWriter<'_>, op: Op, e: &Expr) -> Option<CppExpr> {
    match &e.kind {
        Kind::Local(local) if Some(*local) == writer.logit => Some(CppExpr::atom(writer.name(*local))),
        Kind::Cast(inner, Ty::F32) if op == Op::Mul => key_distance(writer, inner),
        _ => None,
    }
}

/// The `KeyDistance` of `at.kv_pos - a`, `a - at.kv_pos` or `at.kv_pos`.
pub(super) fn key_distance(writer: &mut CudaWriter<'_>, e: &Expr) -> Option<CppExpr> {
    let of = |w: &CudaWriter<'_>, e: &Expr| match &e.kind {
        Kind::Coordinate(local, word) if word == "kv_pos" && is_logit_index(w, *local) => Some(w.name(*local)),
        _ => None,
    };
    if let Some(at) = of(writer, e) {
        return Some(CppExpr::atom(format!("{at}.kv_pos_minus(0)")));
    }
    let Kind::Binary(Op::Sub, a, b) = &e.kind else { return None };
    if !writer.is_plain(Op::Sub, a, b) {
        return None;
    }
    if let Some(at) = of(writer, a) {
        let b = writer.value(b);
        return Some(CppExpr::atom(format!("{at}.kv_pos_minus({b})")));
    }
    let at = of(writer, b)?;
    let a = writer.value(a);
    Some(CppExpr { text: format!("-{at}.kv_pos_minus({a})"), precedence: UNARY })
}

fn is_logit_index(writer: &CudaWriter<'_>, local: LocalId) -> bool {
    writer.settled(&writer.function.locals[local].ty) == Ty::LogitIndex
}
