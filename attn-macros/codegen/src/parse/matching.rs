//! `match`, as a chain of conditions.

use super::ir_builder::IrBuilder;
use super::path;
use super::syntax::{is_type_name, strip};
use crate::ir::{Arm, Block, Expr, Kind, LocalId, Test};
use crate::messages;
use crate::report::SpanRange;
use crate::types::Ty;

impl IrBuilder<'_> {
    pub(super) fn match_expr(&mut self, e: &syn::ExprMatch) -> Expr {
        let subject = self.expr(&e.expr);
        let subject_ty = subject.ty.clone();
        let bound = match subject.kind {
            Kind::Local(local) if !self.locals[local].mutable => local,
            _ => self.temporary("subject", subject_ty.clone(), false),
        };
        let ty = self.shared.types.fresh();
        let mut is_unit = false;
        let mut arms = Vec::new();
        for arm in &e.arms {
            let arm = self.scoped(|r| {
                let (pat, guard) = match &arm.pat {
                    syn::Pat::Guard(p) => (&*p.pat, Some(&*p.guard)),
                    pat => (pat, None),
                };
                let test = r.test(pat, bound, &subject_ty);
                let guard = guard.map(|g| r.expr_as(g, &Ty::Bool));
                let body = r.arm_body(&arm.body, &ty);
                Arm { test, guard, body }
            });
            is_unit |= self.block_type(&arm.body, ty.clone()) == Ty::Unit;
            arms.push(arm);
        }
        let ty = if is_unit { Ty::Unit } else { ty };
        Expr { kind: Kind::Match { subject: Box::new(subject), bound, arms }, ty, span: SpanRange::of(e) }
    }

    /// The body of an arm, or of an `else`.
    pub(super) fn arm_body(&mut self, body: &syn::Expr, ty: &Ty) -> Block {
        if let syn::Expr::Block(b) = strip(body) {
            return self.block(&b.block, ty);
        }
        if let Some(stmt) = self.expr_stmt(body) {
            return Block { stmts: vec![stmt], ..Block::default() };
        }
        Block::of(self.expr_as(body, ty))
    }

    fn test(&mut self, pat: &syn::Pat, bound: LocalId, ty: &Ty) -> Test {
        match pat {
            syn::Pat::Wild(_) => Test::Always,
            syn::Pat::Paren(p) => self.test(&p.pat, bound, ty),
            syn::Pat::Or(p) => Test::Any(p.cases.iter().map(|c| self.test(c, bound, ty)).collect()),
            syn::Pat::Ident(p) if p.by_ref.is_none() && p.mutability.is_none() => {
                let name = p.ident.to_string();
                let is_constant = name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase);
                if p.subpat.is_none() && is_constant {
                    let path = syn::ExprPath { attrs: Vec::new(), qself: None, path: p.ident.clone().into() };
                    let value = path::value(self, &path);
                    self.unify(ty, &value.ty, value.span);
                    return Test::Equal(value);
                }
                // rustc takes it for a variant of an enum in scope, if there is one of this name
                if is_type_name(&name) {
                    self.refuse(&p.ident, messages::BARE_VARIANT);
                }
                self.bind(&p.ident, bound);
                match &p.subpat {
                    Some((_, sub)) => self.test(sub, bound, ty),
                    None => Test::Always,
                }
            }
            syn::Pat::Lit(p) => Test::Equal(self.pattern_value(p, ty)),
            syn::Pat::Path(p) => Test::Equal(self.pattern_value(p, ty)),
            syn::Pat::Range(p) => {
                let from = p.start.as_ref().map(|e| self.expr_as(e, ty));
                let to = p.end.as_ref().map(|e| self.expr_as(e, ty));
                Test::Range { from, to, inclusive: matches!(p.limits, syn::RangeLimits::Closed(_)) }
            }
            pat => {
                self.refuse(pat, messages::MATCH_PATTERN);
                Test::Always
            }
        }
    }

    /// A literal or path in a pattern, read as an expression.
    fn pattern_value(&mut self, pat: &impl quote::ToTokens, ty: &Ty) -> Expr {
        match syn::parse2::<syn::Expr>(pat.to_token_stream()) {
            Ok(expr) => self.expr_as(&expr, ty),
            Err(_) => self.refused(pat, messages::MATCH_PATTERN),
        }
    }
}
