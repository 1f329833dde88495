//! Masks over whole tiles, derived from the Rust of `logits_mask`.
//!
//! [`form`] turns the body of a mask (or of a helper) into one expression without statements: a `let` is a name, an early
//! `return` and an `if` are choices. [`rust`] and [`cuda`] write that expression over abstract values
//! (`attn_core::lang::range`, `range.cuh`), whose functions have the names used here. [`bounds`] finds masks that are, row by row, an
//! interval of keys.

mod bounds;
mod control;
mod cuda;
pub mod form;
mod rust;

use crate::{ir::Function, parse::Links, types::Types};
use form::{Form, Generic, Node};
use proc_macro2::TokenStream;
use rust::Names;

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

/// A helper over abstract values: Rust, and CUDA.
#[must_use]
pub fn helper(
    f: &Function,
    types: &Types,
    generics: &[Generic],
    links: &Links,
    fix: &dyn Fn(&syn::Path) -> syn::Path,
) -> (TokenStream, String) {
    let form = form::of(f, types, generics);
    let args = generics.len() + f.args.len();
    let names = Names { links, generics: &[], fix };
    (rust::helper(&form, args, &names), cuda::helper(&form, &crate::names::helper(&f.name), args))
}

/// Derives a mask over tiles; `generics` are the constants of a generic variant.
#[must_use]
pub fn mask(f: &Function, types: &Types, generics: &[Generic], links: &Links) -> Mask {
    let form = form::of(f, types, &[]);
    if matches!(form.nodes[form.result], Node::Any) {
        let why_not = form.why_not.unwrap_or(form::FLOATS);
        return Mask { rust: None, over: String::new(), bounds: String::new(), tables: Vec::new(), why_not };
    }
    Mask {
        rust: Some(rust::body(&form, &Names { links, generics, fix: &syn::Path::clone })),
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
