//! Factors of a logit and of a key's distance.
//!
//! Both are computed once per logit, so their multiplications are deferred. A logit leaves the tensor cores without
//! `sm_scale`, and a key's position is a constant plus an offset that the whole tile shares. `Logit` and `KeyDistance`
//! (lang/types.cuh, lang/coordinates.cuh) take such a factor before they become floats, so that it is folded into the
//! scale.

use super::{
    precedence::{CppExpr, UNARY},
    writer::CudaWriter,
};
use crate::{
    ir::{Expr, Function, Kind, LocalId, Op},
    types::Ty,
};

/// The logit argument of a transform, unless the hook changes it in place.
pub(super) fn logit_of(f: &Function) -> Option<LocalId> {
    let argument = f.args.first().filter(|_| f.name == "logits_transform")?;
    argument.local.filter(|local| !f.locals[*local].mutable)
}

impl CudaWriter<'_> {
    /// The operands of a plain operator. A logit or distance stays a `Logit` or `KeyDistance` where it meets a factor.
    pub(super) fn factors(&mut self, op: Op, a: &Expr, b: &Expr) -> (CppExpr, CppExpr) {
        let is_factor = |w: &Self, e: &Expr| w.settled(&e.ty) == Ty::F32;
        if matches!(op, Op::Mul | Op::Div) && is_factor(self, a) && is_factor(self, b) {
            if let Some(a) = self.factor(op, a) {
                return (a, self.text(b));
            }
            if op == Op::Mul
                && let Some(b) = self.factor(op, b)
            {
                return (self.text(a), b);
            }
        }
        (self.text(a), self.text(b))
    }

    /// A term of a sum: a factor times a distance becomes a `KeyTerm`, anything else a float.
    pub(super) fn bias_term(&mut self, e: &Expr) -> CppExpr {
        if let Kind::Binary(Op::Mul, a, b) = &e.kind {
            for (factor, distance) in [(a, b), (b, a)] {
                if let Kind::Cast(inner, Ty::F32) = &distance.kind
                    && let Some(distance) = self.key_distance(inner)
                {
                    let factor = self.value(factor);
                    return CppExpr::atom(format!("KeyTerm({factor}, {})", distance.text));
                }
            }
        }
        let value = self.value(e);
        CppExpr::atom(format!("float({value})"))
    }

    fn factor(&mut self, op: Op, e: &Expr) -> Option<CppExpr> {
        match &e.kind {
            Kind::Local(local) if Some(*local) == self.logit => Some(CppExpr::atom(self.name(*local))),
            Kind::Cast(inner, Ty::F32) if op == Op::Mul => self.key_distance(inner),
            _ => None,
        }
    }

    /// The `KeyDistance` of `at.kv_pos - a`, `a - at.kv_pos` or `at.kv_pos`.
    pub(super) fn key_distance(&mut self, e: &Expr) -> Option<CppExpr> {
        let of = |w: &Self, e: &Expr| match &e.kind {
            Kind::Coordinate(local, word) if word == "kv_pos" && w.is_logit_index(*local) => Some(w.name(*local)),
            _ => None,
        };
        if let Some(at) = of(self, e) {
            return Some(CppExpr::atom(format!("{at}.kv_pos_minus(0)")));
        }
        let Kind::Binary(Op::Sub, a, b) = &e.kind else { return None };
        if !self.is_plain(Op::Sub, a, b) {
            return None;
        }
        if let Some(at) = of(self, a) {
            let b = self.value(b);
            return Some(CppExpr::atom(format!("{at}.kv_pos_minus({b})")));
        }
        let at = of(self, b)?;
        let a = self.value(a);
        Some(CppExpr { text: format!("-{at}.kv_pos_minus({a})"), precedence: UNARY })
    }

    fn is_logit_index(&self, local: LocalId) -> bool {
        self.settled(&self.function.locals[local].ty) == Ty::LogitIndex
    }
}
