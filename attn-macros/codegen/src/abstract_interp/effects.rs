//! Side effects of loops and expressions.

use crate::ir::{Block, Expr, Kind, LocalId, Part, Stmt};

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
        block.parts().for_each(|part| self.part(part));
    }

    fn part(&mut self, part: Part<'_>) {
        match part {
            Part::Expr(e) => self.expr(&e.kind),
            Part::Stmt(Stmt::Assign { local, .. }) => self.locals.push(*local),
            Part::Stmt(Stmt::Return(_)) => self.returns = true,
            Part::Stmt(Stmt::Break | Stmt::Continue) => self.leaves = true,
            Part::Stmt(Stmt::Let { .. } | Stmt::LetTuple { .. } | Stmt::Expr(_)) => {}
            Part::Stmt(Stmt::For { body, .. }) => {
                // a `break` inside leaves the inner loop only
                let leaves = self.leaves;
                self.block(body);
                self.leaves = leaves;
                return;
            }
        }
        part.children().into_iter().for_each(|part| self.part(part));
    }

    fn expr(&mut self, kind: &Kind) {
        match kind {
            Kind::SetElement { local, .. } => self.locals.push(*local),
            Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) | Kind::Local(_) | Kind::Param(_) | Kind::Element(..) => {}
            Kind::Coordinate(..) | Kind::Const(_) | Kind::Builtin(_) | Kind::NegInfinity => {}
            Kind::Neg(_) | Kind::Not(_) | Kind::Binary(..) | Kind::Cast(..) | Kind::Call(..) => {}
            Kind::Helper(..) | Kind::HelperOf(..) | Kind::Diverge(_) => {}
            Kind::Tuple(_) | Kind::Array(_) | Kind::Repeat(..) | Kind::Index(..) => {}
            Kind::Struct { .. } | Kind::Field(..) | Kind::Variant { .. } => {}
            Kind::TupleField(..) | Kind::If { .. } | Kind::Match { .. } | Kind::Block(_) => {}
            // constructs added to the language later may have effects
            _ => self.unknown = true,
        }
    }
}

/// Whether an expression has no side effects and always yields its value.
pub(super) fn is_pure(e: &Expr) -> bool {
    let mut changes = Changes::default();
    changes.part(Part::Expr(e));
    let Changes { locals, returns, leaves, unknown } = changes;
    locals.is_empty() && !returns && !leaves && !unknown
}
