//! Side effects of an expression that is emitted as a lambda: jumps out of it, and assignments to locals around it.

use std::collections::HashSet;

use crate::ir::{Block, Expr, Kind, LocalId, Stmt};

/// Whether a `return`, `break` or `continue` leaves the expression.
pub(super) fn transfers_control(e: &Expr) -> bool {
    any(e, &mut |stmt, in_loop| match stmt {
        Stmt::Return(_) => true,
        Stmt::Break | Stmt::Continue => !in_loop,
        _ => false,
    })
}

/// Whether it assigns to a local declared outside. C++ does not define the order of such assignments within an
/// expression.
pub(super) fn assigns_outer_local(e: &Expr) -> bool {
    let mut own: HashSet<LocalId> = HashSet::new();
    any(e, &mut |stmt, _| {
        match stmt {
            Stmt::Let { local, .. } => drop(own.insert(*local)),
            Stmt::LetTuple { parts, .. } => own.extend(parts.iter().flatten()),
            Stmt::Assign { local, .. } | Stmt::Expr(Expr { kind: Kind::SetElement { local, .. }, .. }) => {
                return !own.contains(local);
            }
            _ => {}
        }
        false
    })
}

/// Whether `test` holds for a statement inside, closures excluded. The second argument of `test` is true for statements
/// in an inner loop.
fn any(e: &Expr, test: &mut impl FnMut(&Stmt, bool) -> bool) -> bool {
    in_expr(e, false, test)
}

fn in_expr(e: &Expr, in_loop: bool, test: &mut impl FnMut(&Stmt, bool) -> bool) -> bool {
    match &e.kind {
        Kind::Diverge(stmt) => in_stmt(stmt, in_loop, test),
        Kind::Closure { .. } => false,
        _ => {
            let (exprs, blocks) = e.children();
            exprs.into_iter().any(|e| in_expr(e, in_loop, test))
                || blocks.into_iter().any(|b| in_block(b, in_loop, test))
        }
    }
}

fn in_block(block: &Block, in_loop: bool, test: &mut impl FnMut(&Stmt, bool) -> bool) -> bool {
    block.stmts.iter().any(|s| in_stmt(s, in_loop, test)) || block.tail.iter().any(|tail| in_expr(tail, in_loop, test))
}

fn in_stmt(stmt: &Stmt, in_loop: bool, test: &mut impl FnMut(&Stmt, bool) -> bool) -> bool {
    let (exprs, blocks) = stmt.children();
    test(stmt, in_loop)
        || exprs.into_iter().any(|e| in_expr(e, in_loop, test))
        || blocks.into_iter().any(|b| in_block(b, in_loop || matches!(stmt, Stmt::For { .. }), test))
}
