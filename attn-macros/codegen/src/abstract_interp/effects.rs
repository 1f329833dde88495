//! Side effects of loops and expressions.

use crate::ir::{Block, Expr, Kind, LocalId, Stmt};

/// The locals that a loop may change, and whether it may leave the function.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) locals: Vec<LocalId>,
    pub(super) returns: bool,
    pub(super) leaves: bool,
    pub(super) unknown: bool,
}

impl Changes {
    pub(super) fn block(&mut self, block: &Block) {
        block.stmts.iter().for_each(|s| self.stmt(s));
        block.tail.iter().for_each(|e| self.expr(e));
    }

    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            Kind::Diverge(stmt) => return self.stmt(stmt),
            Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) | Kind::Local(_) | Kind::Param(_) | Kind::Element(..) => {}
            Kind::Coordinate(..)
            | Kind::Const(_)
            | Kind::Builtin(_)
            | Kind::NegInfinity
            | Kind::Neg(_)
            | Kind::Not(_) => {}
            Kind::Binary(..) | Kind::Cast(..) | Kind::Call(..) | Kind::Helper(..) | Kind::HelperOf(..) => {}
            Kind::Tuple(_) | Kind::Array(_) | Kind::Repeat(..) | Kind::Index(..) => {}
            Kind::Struct { .. } | Kind::Field(..) | Kind::Variant { .. } => {}
            Kind::SetElement { local, .. } => self.locals.push(*local),
            Kind::TupleField(..) | Kind::If { .. } | Kind::Match { .. } | Kind::Block(_) => {}
            // constructs added to the language later may have effects
            _ => self.unknown = true,
        }
        let (exprs, blocks) = e.children();
        exprs.into_iter().for_each(|e| self.expr(e));
        blocks.into_iter().for_each(|b| self.block(b));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign { local, .. } => self.locals.push(*local),
            Stmt::Return(_) => self.returns = true,
            Stmt::Break | Stmt::Continue => self.leaves = true,
            Stmt::Let { .. } | Stmt::LetTuple { .. } | Stmt::Expr(_) => {}
            Stmt::For { body, .. } => {
                // a `break` inside leaves the inner loop only
                let leaves = self.leaves;
                self.block(body);
                self.leaves = leaves;
                return;
            }
            #[allow(unreachable_patterns)]
            _ => self.unknown = true,
        }
        let (exprs, blocks) = stmt.children();
        exprs.into_iter().for_each(|e| self.expr(e));
        blocks.into_iter().for_each(|b| self.block(b));
    }
}

/// Whether an expression has no side effects and always yields its value.
pub(super) fn is_pure(e: &Expr) -> bool {
    let mut changes = Changes::default();
    changes.expr(e);
    let Changes { locals, returns, leaves, unknown } = changes;
    locals.is_empty() && !returns && !leaves && !unknown
}

/// Whether a loop has a `break` or `continue`.
pub(super) fn leaves(body: &Block) -> bool {
    let mut changes = Changes::default();
    changes.block(body);
    changes.leaves
}
