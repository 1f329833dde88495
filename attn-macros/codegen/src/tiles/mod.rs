//! Masks over whole tiles, derived from the Rust of `logits_mask`.
//!
//! [`form`] turns the body of a mask (or of a helper) into one expression without statements: a `let` is a name, an early
//! `return` and an `if` are choices. [`rust`] and [`cuda`] write that expression over abstract values
//! (`attn_core::lang::range`, `range.cuh`), whose functions have the names used here. [`bounds`] finds masks that are, row by row, an
//! interval of keys.

pub mod bounds;
mod control;
pub mod cuda;
pub mod form;
pub mod rust;

use crate::{ir::Function, parse::Links, types::Types};
use form::{Form, Node};
use proc_macro2::TokenStream;

/// What is derived from a `logits_mask`.
#[derive(Debug)]
pub struct Mask {
    /// The body of `mask_over` in Rust; `None` where nothing is known.
    pub rust: Option<TokenStream>,
    /// `mask_over` in CUDA; empty where nothing is known.
    pub over: String,
    /// `kv_bounds` in CUDA, or empty.
    pub bounds: String,
    /// Captured tensors that `over` asks for ranges, as members of the text.
    pub tables: Vec<String>,
    /// Why nothing is known, or empty.
    pub why_not: &'static str,
}

/// Derives a mask over tiles.
#[must_use]
pub fn mask(f: &Function, types: &Types, links: &Links) -> Mask {
    let form = form::of(f, types);
    if matches!(form.nodes[form.result], Node::Any) {
        let why_not = form.why_not.unwrap_or(form::FLOATS);
        return Mask { rust: None, over: String::new(), bounds: String::new(), tables: Vec::new(), why_not };
    }
    Mask {
        rust: Some(rust::body(&form, links, &syn::Path::clone)),
        over: cuda::mask_over(&form),
        bounds: bounds::kv_bounds(&form),
        tables: form.tables(),
        why_not: "",
    }
}

/// How often each node of a form is used.
fn uses(form: &Form) -> Vec<usize> {
    let mut uses = vec![0; form.nodes.len()];
    uses[form.result] = 1;
    // a node comes after those that it is made of
    for id in (0..form.nodes.len()).rev() {
        if uses[id] > 0 {
            form.nodes[id].children().iter().for_each(|&child| uses[child] += 1);
        }
    }
    uses
}

#[cfg(test)]
mod tests;
