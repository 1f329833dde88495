//! A logits transform that adds elements of a captured tensor, neighbours for neighbouring keys, as where they begin: kernels then read them as rows of memory.

use super::{
    Derived, Used,
    bias::{Added, added},
    function_of,
    slope::Known,
};
use crate::{
    ir::{Expr, Function, Kind},
    report::Report,
    types::Types,
};

/// `logits_bias_row(LogitIndex at)` as a const member function; nothing where the transform adds something else than `self.name[[.., at.kv_pos]]`.
pub(crate) fn bias_row(f: &Function, types: &Types, file: &str) -> Option<String> {
    let added = added(&f.body, super::factor::logit_of(f)?).filter(|added| !added.negated)?;
    let Kind::Element(name, indices) = &added.term.kind else { return None };
    let (key, row) = indices.split_last()?;
    let known = Known::of(f, types)?;
    if !is_position(key) || row.iter().any(|index| known.needs_key(index)) {
        return None;
    }
    let (used, report) = (&mut Used::default(), &mut Report::default());
    let added = Added { row: Some((name, row)), ..added };
    Some(function_of(
        f,
        ["ATTN_FN auto logits_bias_row", " const"],
        types,
        file,
        used,
        report,
        Some(Derived::Added(&added)),
    ))
}

fn is_position(e: &Expr) -> bool {
    matches!(&e.kind, Kind::Word(_, word) if word == "kv_pos")
}
