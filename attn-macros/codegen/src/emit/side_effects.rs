//! Side effects of an expression that is emitted as a lambda: jumps out of it, and assignments to locals around it.

use std::collections::HashSet;

use crate::ir::{Expr, Kind, LocalId, Part, Stmt};

/// Whether a `return`, `break` or `continue` leaves the expression.
pub(super) fn transfers_control(e: &Expr) -> bool {
    leaves(Part::Expr(e), false)
}

fn leaves(part: Part<'_>, in_loop: bool) -> bool {
    part.any(&mut |part| match part {
        Part::Expr(Expr { kind: Kind::Closure { .. }, .. }) => Some(false),
        Part::Stmt(Stmt::Return(_)) => Some(true),
        Part::Stmt(Stmt::Break | Stmt::Continue) => Some(!in_loop),
        Part::Stmt(Stmt::For { from, to, body, .. }) => {
            let bounds = [from, to].into_iter().any(|bound| leaves(Part::Expr(bound), in_loop));
            Some(bounds || body.parts().any(|part| leaves(part, true)))
        }
        _ => None,
    })
}

/// Whether it assigns to a local declared outside. C++ does not define the order of such assignments within an
/// expression.
pub(super) fn assigns_outer_local(e: &Expr) -> bool {
    let mut own: HashSet<LocalId> = HashSet::new();
    Part::Expr(e).any(&mut |part| {
        match part {
            Part::Expr(Expr { kind: Kind::Closure { .. }, .. }) => return Some(false),
            Part::Stmt(Stmt::Let { local, .. }) => drop(own.insert(*local)),
            Part::Stmt(Stmt::LetTuple { parts, .. }) => own.extend(parts.iter().flatten()),
            Part::Stmt(Stmt::Assign { local, .. } | Stmt::Expr(Expr { kind: Kind::SetElement { local, .. }, .. }))
                if !own.contains(local) =>
            {
                return Some(true);
            }
            _ => {}
        }
        None
    })
}
