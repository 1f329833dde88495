//! Semantic checks: refuses what is legal Rust, and in the subset, but wrong as a variant.

use std::collections::HashSet;

use crate::ir::{Block, Expr, Function, Kind, LocalId, Op, Stmt, Test};
use crate::report::Report;
use crate::types::{Ty, Types};
use crate::{budget, hook, literals, messages};

/// Checks one hook or helper, once all functions of the item are lowered.
pub(crate) fn function(f: &Function, types: &Types, report: &mut Report) {
    literals::check_function(f, types, report);
    let mut check = Check { hook: &f.name, types, report, uniform: HashSet::new(), divergent: 0, returned: false };
    check.block(&f.body);
    if f.name == "logits_transform" {
        check.masks_by_position(&f.body, false);
    }
}

struct Check<'a> {
    hook: &'a str,
    types: &'a Types,
    report: &'a mut Report,
    /// Locals that are uniform: made of parameters alone, so equal for all rows.
    uniform: HashSet<LocalId>,
    /// Nesting depth of branches that not all rows take.
    divergent: usize,
    /// Whether some rows may have returned already.
    returned: bool,
}

impl Check<'_> {
    fn block(&mut self, block: &Block) {
        for stmt in &block.stmts {
            self.stmt(stmt);
        }
        if let Some(tail) = &block.tail {
            self.expr(tail);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let { local, init } => {
                self.expr(init);
                if self.is_uniform(init) {
                    self.uniform.insert(*local);
                }
            }
            Stmt::LetTuple { init, .. } => self.expr(init),
            Stmt::Expr(e) => self.expr(e),
            Stmt::Assign { local, value, .. } => {
                self.expr(value);
                if self.divergent > 0 || !self.is_uniform(value) {
                    self.uniform.remove(local);
                }
            }
            Stmt::For { from, to, body, .. } => {
                self.expr(from);
                self.expr(to);
                let uniform = self.is_uniform(from) && self.is_uniform(to);
                self.branch(uniform, |c| c.block(body));
            }
            Stmt::Return(value) => {
                if let Some(value) = value {
                    self.expr(value);
                }
                self.returned |= self.divergent > 0;
            }
            Stmt::Break | Stmt::Continue => self.returned |= self.divergent > 0,
        }
    }

    fn branch(&mut self, uniform: bool, f: impl FnOnce(&mut Self)) {
        self.divergent += usize::from(!uniform);
        f(self);
        self.divergent -= usize::from(!uniform);
    }

    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            Kind::Row(_, method, args) => {
                let collective = !matches!(*method, "dim" | "map" | "zip");
                if collective && (self.divergent > 0 || self.returned) {
                    self.report.at(e.span, messages::DIVERGENT_ROW);
                }
                args.iter().for_each(|a| self.expr(a));
            }
            Kind::Closure { body, .. } => {
                // a closure runs per element: row reductions are refused there, but a `return` inside leaves the
                // closure only
                let returned = self.returned;
                self.branch(false, |c| c.block(body));
                self.returned = returned;
            }
            Kind::Binary(op, a, b) => {
                self.expr(a);
                let uniform = !op.is_logical() || self.is_uniform(a);
                self.branch(uniform, |c| c.expr(b));
                let equality = matches!(op, Op::Eq | Op::Ne);
                if op.is_comparison() && ![a, b].iter().all(|e| is_comparable(&self.types.settled(&e.ty), equality)) {
                    self.report.at(e.span, messages::COMPARE);
                }
            }
            Kind::If { cond, then, other } => {
                self.expr(cond);
                let uniform = self.is_uniform(cond);
                self.branch(uniform, |c| {
                    c.block(then);
                    if let Some(other) = other {
                        c.block(other);
                    }
                });
            }
            Kind::Match { subject, arms, .. } => {
                self.expr(subject);
                let uniform = self.is_uniform(subject);
                self.branch(uniform, |c| {
                    for arm in arms {
                        if let Some(guard) = &arm.guard {
                            c.expr(guard);
                        }
                        c.block(&arm.body);
                    }
                });
            }
            Kind::Store { index, value, .. } => {
                if !hook::STORING.contains(&self.hook) {
                    self.report.at(e.span, messages::STORE_HOOK);
                }
                index.iter().chain([&**value]).for_each(|e| self.expr(e));
            }
            Kind::Block(block) => self.block(block),
            Kind::Diverge(stmt) => self.stmt(stmt),
            _ => e.children().0.into_iter().for_each(|e| self.expr(e)),
        }
    }

    /// Whether an expression is uniform: equal for all rows.
    fn is_uniform(&self, e: &Expr) -> bool {
        if !budget::spend(1) {
            return false;
        }
        match &e.kind {
            Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) | Kind::Param(_) | Kind::Const(_) | Kind::Builtin(_) => true,
            Kind::Variant { .. } => true,
            Kind::Struct { .. } | Kind::Field(..) => e.children().0.into_iter().all(|e| self.is_uniform(e)),
            Kind::Local(local) => self.uniform.contains(local),
            Kind::Row(_, "dim", _) => true,
            Kind::Neg(e) | Kind::Not(e) | Kind::Cast(e, _) => self.is_uniform(e),
            Kind::Binary(_, a, b) => self.is_uniform(a) && self.is_uniform(b),
            Kind::Call(_, items) | Kind::Helper(_, items) | Kind::Element(_, items) => {
                items.iter().all(|e| self.is_uniform(e))
            }
            _ => false,
        }
    }

    /// Reports `-inf` as the result of a branch that tests positions.
    fn masks_by_position(&mut self, block: &Block, tested: bool) {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Return(Some(e)) | Stmt::Expr(e) => self.masked_value(e, tested),
                _ => {}
            }
        }
        if let Some(tail) = &block.tail {
            self.masked_value(tail, tested);
        }
    }

    fn masked_value(&mut self, e: &Expr, tested: bool) {
        debug_assert_eq!(self.hook, "logits_transform");
        match &e.kind {
            Kind::NegInfinity if tested => self.report.at(e.span, messages::MASK_IN_TRANSFORM),
            Kind::If { cond, then, other } => {
                let tested = tested || reads_index(cond);
                self.masks_by_position(then, tested);
                if let Some(other) = other {
                    self.masks_by_position(other, tested);
                }
            }
            Kind::Match { subject, arms, .. } => {
                for arm in arms {
                    let by_guard = arm.guard.as_ref().is_some_and(reads_index);
                    let tested = tested || by_guard || reads_index(subject) && !matches!(arm.test, Test::Always);
                    self.masks_by_position(&arm.body, tested || reads_index(subject));
                }
            }
            Kind::Block(block) => self.masks_by_position(block, tested),
            Kind::Diverge(stmt) => {
                if let Stmt::Return(Some(e)) = &**stmt {
                    self.masked_value(e, tested);
                }
            }
            _ => {}
        }
    }
}

/// Whether a comparison takes values of this type: a number, a bool or an unknown type, and for equality a user's type,
/// which rustc then checks to be an enum.
fn is_comparable(ty: &Ty, equality: bool) -> bool {
    use Ty::{F32, I32, I64, U8, U32, U64, Var};
    matches!(ty, F32 | I32 | U32 | U8 | U64 | I64 | Ty::Bool | Ty::Param(_) | Var(_))
        || equality && matches!(ty, Ty::Device(_))
}

fn reads_index(e: &Expr) -> bool {
    if !budget::spend(1) {
        return false;
    }
    match &e.kind {
        Kind::Coordinate(..) => true,
        Kind::If { .. } | Kind::Match { .. } | Kind::Block(_) => false,
        _ => e.children().0.into_iter().any(reads_index),
    }
}
