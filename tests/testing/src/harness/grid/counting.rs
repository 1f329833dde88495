//! Cases that count keys, in every kernel, layout, type and head dim of the grids.

use super::{check, dims, serving};
use crate::{Case, counting::counts};
use attn::Variant;
use attn_core::registry::Registry;

/// The cases of the grids whose variants leave logits of 0 and values of 1 as they are, with such logits and values:
/// the log-sum-exp of a row is the logarithm of the number of its visible keys, and its output is 1. No key can be
/// missing or be counted twice within the tolerance. They run the kernels of the other grids.
#[must_use]
pub fn counting() -> Vec<Case> {
    let Ok(registry) = Registry::global() else { return Vec::new() };
    let all = check().into_iter().chain(dims()).chain(serving());
    let cases = all.filter(|case| Variant::parse_with(&case.variant, &registry).is_ok_and(|v| counts(&v)));
    let counting = |case: Case| {
        let name = case.name.map(|name| format!("counting {name}"));
        Case { name, counting: true, q_std: None, ..case }
    };
    cases.map(counting).collect()
}
