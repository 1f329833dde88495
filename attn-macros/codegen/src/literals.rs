//! Checks integer literals whose type the macro cannot see.
//!
//! In `self.bits & 3` the text leaves the type of `3` to C++, where an int is converted to the parameter's type. That
//! is correct as long as the literal is an operand together with the parameter. `(!0 >> 4) & self.bits` shifts first:
//! in Rust with the parameter's type, in C++ as an int. Such a literal is refused until its type is written.
//!
//! Where the budget is spent the item is refused in any case: each function below then returns what ends the pass.

use crate::ir::{Expr, Function, Kind, Op, Part, Stmt};
use crate::report::Report;
use crate::types::Types;
use crate::{budget, messages};

/// Checks one hook or helper, once all functions of the item are lowered.
pub(crate) fn check_function(f: &Function, types: &Types, report: &mut Report) {
    let mut check = Check { types, report };
    f.body.parts().for_each(|part| check.part(part));
}

struct Check<'a> {
    types: &'a Types,
    report: &'a mut Report,
}

impl Check<'_> {
    fn part(&mut self, part: Part<'_>) {
        match part {
            Part::Stmt(Stmt::Let { init, .. } | Stmt::LetTuple { init, .. }) if self.is_untyped(init) => {
                self.report.at(init.span, messages::UNTYPED_VARIABLE);
            }
            Part::Stmt(Stmt::For { from, to, .. }) if self.is_untyped(from) && self.is_untyped(to) => {
                self.report.at(to.span, messages::UNTYPED_LITERAL);
            }
            Part::Expr(e) if self.is_untyped(e) => {
                // C++ computes it as an int of 32 bits, and converts the result
                if !has_no_arithmetic(e) && (self.types.may_be_wide(&e.ty) || !wraps_alike(e)) {
                    self.report.at(e.span, messages::UNTYPED_LITERAL);
                }
            }
            Part::Expr(e) => {
                self.check_elements(e);
                part.children().into_iter().for_each(|part| self.part(part));
            }
            Part::Stmt(_) => part.children().into_iter().for_each(|part| self.part(part)),
        }
    }

    /// Checks the elements of a tuple or an array, and the values of branches.
    fn check_elements(&mut self, e: &Expr) {
        let literals = match &e.kind {
            // C++ would give each element a type of its own
            Kind::Tuple(items) | Kind::Array(items) => items.iter().filter(|item| self.is_untyped(item)).collect(),
            Kind::Repeat(item, _) if self.is_untyped(item) => vec![&**item],
            // C++ would give `if c { 1 } else { a_u8 }` the type int
            Kind::If { .. } | Kind::Match { .. }
                if self.types.is_external_int(&e.ty) && self.types.may_be_wide(&e.ty) =>
            {
                values(e).into_iter().filter(|v| is_made_of_literals(v)).collect()
            }
            _ => Vec::new(),
        };
        literals.into_iter().for_each(|literal| self.report.at(literal.span, messages::UNTYPED_LITERAL));
    }

    /// Whether an expression is made of literals alone, and takes its type from something that the macro cannot see.
    fn is_untyped(&self, e: &Expr) -> bool {
        is_made_of_literals(e) && self.types.is_external_int(&e.ty)
    }
}

/// Whether an expression is made of literals alone.
pub(crate) fn is_made_of_literals(e: &Expr) -> bool {
    if !budget::spend(1) {
        return false;
    }
    match &e.kind {
        Kind::Int(_) => true,
        Kind::Neg(e) | Kind::Not(e) => is_made_of_literals(e),
        // a shift has the type of what is shifted, whatever the amount's
        Kind::Binary(Op::Shl | Op::Shr, a, _) => is_made_of_literals(a),
        Kind::Binary(op, a, b) if !op.is_comparison() && !op.is_logical() => {
            is_made_of_literals(a) && is_made_of_literals(b)
        }
        Kind::If { .. } | Kind::Match { .. } | Kind::Block(_) => values(e).iter().all(|v| is_made_of_literals(v)),
        _ => false,
    }
}

/// The values that the branches of an expression end in; branches that diverge have none.
pub(crate) fn values(e: &Expr) -> Vec<&Expr> {
    if !budget::spend(1) {
        return Vec::new();
    }
    match &e.kind {
        Kind::If { .. } | Kind::Match { .. } | Kind::Block(_) => {
            let tails = e.children().1.into_iter().filter_map(|block| block.tail.as_deref());
            tails.flat_map(values).collect()
        }
        Kind::Diverge(_) => Vec::new(),
        _ => vec![e],
    }
}

/// Whether it is literals without operations of two operands: in every integer type it has the value that C++ converts.
fn has_no_arithmetic(e: &Expr) -> bool {
    if !budget::spend(1) {
        return true;
    }
    match &e.kind {
        Kind::Int(_) => true,
        Kind::Neg(e) | Kind::Not(e) => has_no_arithmetic(e),
        Kind::Binary(..) => false,
        _ => values(e).iter().all(|v| has_no_arithmetic(v)),
    }
}

/// Whether the bits are the same when computed as an int and as a u32.
fn wraps_alike(e: &Expr) -> bool {
    if !budget::spend(1) {
        return true;
    }
    match &e.kind {
        Kind::Int(_) => true,
        Kind::Neg(e) | Kind::Not(e) => wraps_alike(e),
        // the amount has a type of its own
        Kind::Binary(Op::Shl, a, _) => wraps_alike(a),
        Kind::Binary(op, a, b) => !matches!(op, Op::Div | Op::Rem | Op::Shr) && wraps_alike(a) && wraps_alike(b),
        _ => values(e).iter().all(|v| wraps_alike(v)),
    }
}
