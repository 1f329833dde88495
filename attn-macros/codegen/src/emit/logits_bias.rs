//! `logits_bias`: the term of a logits transform that only adds to the logit. Kernels initialise the accumulators of
//! QK^T with it, so the addition is free.

use super::function::{self, Arguments};
use super::logit_factor;
use super::logit_factor::logit_of;
use super::precedence::{CppExpr, UNARY};
use super::writer::CudaWriter;
use crate::ir::{Block, Expr, Function, Kind, LocalId, Op, Part, Stmt};
use crate::types::Types;

/// The term that a transform adds to the logit.
pub(super) struct Added<'f> {
    pub(super) term: &'f Expr,
    pub(super) negated: bool,
}

/// Emits `logits_bias(LogitIndex at)` as a const member function; `None` where the transform does more than add.
pub(crate) fn bias(f: &Function, types: &Types, file: &str) -> Option<String> {
    let logit = logit_of(f)?;
    let added = added(&f.body, logit)?;
    Some(function::derived(f, "auto logits_bias", Arguments::AfterLogit, (types, file), |writer| {
        write_added(writer, &f.body, added.negated, |w| logit_factor::bias_term(w, added.term));
    }))
}

pub(super) fn added(body: &Block, logit: LocalId) -> Option<Added<'_>> {
    let is_logit = |e: &Expr| matches!(e.kind, Kind::Local(local) if local == logit);
    let of = |term, negated| Added { term, negated };
    let added = match &body.tail.as_deref()?.kind {
        Kind::Binary(Op::Add, a, b) if is_logit(a) => of(b, false),
        Kind::Binary(Op::Add, a, b) if is_logit(b) => of(a, false),
        Kind::Binary(Op::Sub, a, b) if is_logit(a) => of(b, true),
        _ => return None,
    };
    let needs = |part: Part<'_>| {
        part.any(&mut |part| match part {
            Part::Expr(Expr { kind: Kind::Local(local), .. }) => Some(*local == logit),
            Part::Expr(Expr { kind: Kind::Store { .. } | Kind::Diverge(_), .. }) => Some(true),
            Part::Stmt(Stmt::Return(_)) => Some(true),
            _ => None,
        })
    };
    // the term does not read the logit, and nothing stores or ends the function
    let free = !body.stmts.iter().map(Part::Stmt).chain([Part::Expr(added.term)]).any(needs);
    free.then_some(added)
}

/// Writes a body that returns a term computed from the same locals.
pub(super) fn write_added(
    writer: &mut CudaWriter<'_>,
    body: &Block,
    negated: bool,
    term: impl FnOnce(&mut CudaWriter<'_>) -> CppExpr,
) {
    for stmt in &body.stmts {
        writer.stmt(stmt);
    }
    let term = term(writer);
    writer.line(&if negated { format!("return -{};", term.at_least(UNARY)) } else { format!("return {};", term.text) });
}
