//! A logits transform that only adds to the logit, as what it adds: kernels let the product of queries and keys start from it,
//! which costs nothing once the term is there.

use super::{Derived, Used, function_of, slope::Slope};
use crate::{
    ir::{Block, Expr, Function, Kind, LocalId, Op, Stmt},
    report::Report,
    types::Types,
};

/// What a transform adds: a term of its last expression, with the other one the logit.
pub(super) struct Added<'f> {
    pub(super) term: &'f Expr,
    pub(super) negated: bool,
    /// Asked instead of the term: by how much it grows from a key to the next.
    pub(super) slope: Option<Slope<'f>>,
    /// Asked instead of the term, which is an element of this tensor: the row of it with these indices.
    pub(super) row: Option<(&'f str, &'f [Expr])>,
}

/// `logits_bias(LogitIndex at)` as a const member function; nothing where the transform does more than to add.
pub(crate) fn bias(f: &Function, types: &Types, file: &str) -> Option<String> {
    let logit = super::factor::logit_of(f)?;
    let added = added(&f.body, logit)?;
    let head = "ATTN_FN auto logits_bias";
    // whatever is wrong was said of the transform
    let (used, report) = (&mut Used::default(), &mut Report::default());
    Some(function_of(f, [head, " const"], types, file, used, report, Some(Derived::Added(&added))))
}

pub(super) fn added(body: &Block, logit: LocalId) -> Option<Added<'_>> {
    let is_logit = |e: &Expr| matches!(e.kind, Kind::Local(local) if local == logit);
    let of = |term, negated| Added { term, negated, slope: None, row: None };
    let added = match &body.tail.as_deref()?.kind {
        Kind::Binary(Op::Add, a, b) if is_logit(a) => of(b, false),
        Kind::Binary(Op::Add, a, b) if is_logit(b) => of(a, false),
        Kind::Binary(Op::Sub, a, b) if is_logit(a) => of(b, true),
        _ => return None,
    };
    let free = !body.stmts.iter().any(|stmt| stmt_needs(stmt, logit)) && !expr_needs(added.term, logit);
    free.then_some(added)
}

/// Whether it reads the logit, stores something, or ends the function.
fn expr_needs(e: &Expr, logit: LocalId) -> bool {
    let (exprs, blocks) = e.children();
    match &e.kind {
        Kind::Local(local) if *local == logit => true,
        Kind::Store { .. } | Kind::Diverge(_) => true,
        _ => exprs.into_iter().any(|e| expr_needs(e, logit)) || blocks.into_iter().any(|b| block_needs(b, logit)),
    }
}

fn block_needs(block: &Block, logit: LocalId) -> bool {
    block.stmts.iter().any(|s| stmt_needs(s, logit)) || block.tail.iter().any(|e| expr_needs(e, logit))
}

fn stmt_needs(stmt: &Stmt, logit: LocalId) -> bool {
    let (exprs, blocks) = stmt.children();
    matches!(stmt, Stmt::Return(_))
        || exprs.into_iter().any(|e| expr_needs(e, logit))
        || blocks.into_iter().any(|b| block_needs(b, logit))
}
