//! Masks over whole tiles, derived from the Rust of `logits_mask`.
//!
//! `form` turns the body of a mask (or of a helper) into one expression without statements: a `let` is a name, an early
//! `return` and an `if` are choices. `rust` and `cuda` write that expression over abstract values
//! (`attn_core::lang::range`, `lang/interval.cuh`), whose functions have the names used here. `bounds` finds masks that are, row by row, an
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

/// What is derived of a variant's masks.
#[derive(Debug, Default)]
pub struct Mask {
    /// The body of `mask_over` in Rust; `None` where nothing is known.
    pub rust: Option<TokenStream>,
    /// `mask_over` in CUDA; empty where nothing is known.
    pub over: String,
    /// `kv_bounds` in CUDA, or empty.
    pub bounds: String,
    /// The statements of `remap_over` in Rust, of a variant with remapping hooks.
    pub remap_rust: Option<TokenStream>,
    /// `remap_over` in CUDA, or empty.
    pub remap: String,
    /// Captured tensors that the texts ask for ranges, by their Rust names.
    pub tables: Vec<String>,
    /// Why nothing is known of a mask, or empty.
    pub why_not: &'static str,
}

/// Derives what can be; `generics` are the constants of a generic variant.
#[must_use]
pub fn derived(functions: &[Function], types: &Types, generics: &[Generic], links: &Links) -> Mask {
    let names = Names { links, generics, fix: &syn::Path::clone };
    let mask = functions.iter().find(|f| f.name == "logits_mask");
    let mut mask = mask.map(|f| of_mask(f, types, &names)).unwrap_or_default();
    remap(functions, types, &names, &mut mask);
    mask
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

/// What the remapping hooks make of a tile.
fn remap(functions: &[Function], types: &Types, names: &Names<'_>, mask: &mut Mask) {
    let (mut rust, mut cuda) = (TokenStream::new(), String::new());
    for (hook, word) in [("remap_qo_pos", "qo_pos"), ("remap_kv_pos", "kv_pos")] {
        if let Some(f) = functions.iter().find(|f| f.name == hook) {
            let form = form::of(f, types, &[]);
            rust.extend(rust::set_word(&form, word, names));
            cuda += &cuda::set_word(&form, word);
            mask.tables.extend(form.tables());
        }
    }
    if !cuda.is_empty() {
        mask.tables.sort();
        mask.tables.dedup();
        mask.remap_rust = Some(rust);
        mask.remap =
            format!("ATTN_FN Tile remap_over(const Tile& at) const {{\n  Tile to = at;\n{cuda}  return to;\n}}\n");
    }
}

/// Derives a mask over tiles.
fn of_mask(f: &Function, types: &Types, names: &Names<'_>) -> Mask {
    let form = form::of(f, types, &[]);
    if matches!(form.nodes[form.result], Node::Any) {
        return Mask { why_not: form.why_not.unwrap_or(form::FLOATS), ..Mask::default() };
    }
    Mask {
        rust: Some(rust::body(&form, names)),
        over: cuda::mask_over(&form),
        bounds: bounds::kv_bounds(&form),
        tables: form.tables(),
        ..Mask::default()
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
