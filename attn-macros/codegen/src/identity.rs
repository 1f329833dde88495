//! Hooks that change nothing. A variant that writes one has no such hook, so no kernel runs it: an empty
//! `key_transform` costs no pass over the keys.

use crate::ir::{Block, Expr, Function, Kind, LocalId, Part};

/// The methods of a row that leave it as it is.
const READING: [&str; 5] = ["dim", "sum", "sum_sq", "max_abs", "dot"];

/// Whether a hook on a row or logit gives back what it takes, and stores nothing.
pub(crate) fn is_identity(f: &Function) -> bool {
    match f.name.as_str() {
        "query_transform" | "key_transform" | "value_transform" | "output_transform" => !changes(&f.body),
        "logits_transform" => {
            f.body.stmts.is_empty()
                && f.args.first().is_some_and(|logit| logit.local.is_some() && value(&f.body) == logit.local)
        }
        _ => false,
    }
}

/// Whether a block changes its row, or stores.
fn changes(block: &Block) -> bool {
    let mut changes = |part: Part<'_>| match part {
        Part::Expr(Expr { kind: Kind::Store { .. } | Kind::Error, .. }) => Some(true),
        Part::Expr(Expr { kind: Kind::Row(_, method, args), .. }) if !READING.contains(method) => {
            let [Expr { kind: Kind::Closure { params, body, .. }, .. }] = &args[..] else { return Some(true) };
            let element = params.get(1).and_then(|(local, _)| *local);
            let keeps = *method == "map" && body.stmts.is_empty() && element.is_some() && value(body) == element;
            Some(!keeps)
        }
        _ => None,
    };
    block.parts().any(|part| part.any(&mut changes))
}

/// The local that is the value of a block.
fn value(block: &Block) -> Option<LocalId> {
    match block.tail.as_deref()?.kind {
        Kind::Local(local) => Some(local),
        _ => None,
    }
}
