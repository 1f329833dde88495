//! `logits_bias_row`: the start of the bias row, for a logits transform that adds an element of a parameter tensor
//! whose last index is the key's position. Neighbouring keys then have neighbouring elements, so kernels load the bias
//! as contiguous rows.

use super::function::{self, Arguments};
use super::logit_factor::logit_of;
use super::logits_bias;
use super::logits_bias::added;
use super::logits_slope::KeyDependence;
use super::precedence::CppExpr;
use crate::ir::{Expr, Function, Kind};
use crate::names;
use crate::types::Types;

/// Emits `logits_bias_row(LogitIndex at)` as a const member function; `None` where the transform adds anything but
/// `self.name[[.., at.kv_pos]]`.
pub(crate) fn bias_row(f: &Function, types: &Types, file: &str) -> Option<String> {
    let added = added(&f.body, logit_of(f)?).filter(|added| !added.negated)?;
    let Kind::Element(name, indices) = &added.term.kind else { return None };
    let (key, row) = indices.split_last()?;
    let known = KeyDependence::of(f, types)?;
    if !is_position(key) || row.iter().any(|index| known.needs_key(index)) {
        return None;
    }
    Some(function::derived(f, "auto logits_bias_row", Arguments::AfterLogit, (types, file), |writer| {
        logits_bias::write_added(writer, &f.body, added.negated, |w| {
            let indices = w.list(row);
            CppExpr::atom(format!("{}.row({indices})", names::param(name)))
        });
    }))
}

fn is_position(e: &Expr) -> bool {
    matches!(&e.kind, Kind::Coordinate(_, word) if word == "kv_pos")
}
