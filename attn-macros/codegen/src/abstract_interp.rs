//! Tile classes, derived from the Rust of `logits_mask` by abstract interpretation over intervals and known bits (cf.
//! LLVM's ConstantRange and KnownBits).
//!
//! `lowering` turns the body of a mask or helper into its normal form: one expression without statements. A `let`
//! becomes a name; branches, early `return`s and unrolled loops become selects. `emit_rust` and `emit_cuda` write that
//! expression over abstract values (`attn_core::lang::interval`, `lang/interval.cuh`), whose functions have the names
//! used here. `kv_interval` recognises masks that are one interval of keys per row.

mod effects;
mod emit_cuda;
mod emit_rust;
mod kv_interval;
mod lower_control;
mod lower_expr;
mod lower_loop;
mod lowering;
pub mod normal_form;
mod range_set;
mod ranges;

use crate::{budget, ir::Function, parse::Links, types::Types};
use emit_rust::RustNames;
pub(crate) use lowering::{MOST_ELEMENTS, position};
use normal_form::{Generic, Node};
use proc_macro2::TokenStream;

/// What is derived from a variant's mask and remapping hooks.
#[derive(Debug, Default)]
pub struct DerivedMask {
    /// The body of `mask_over` in Rust; `None` where nothing can be derived.
    pub rust: Option<TokenStream>,
    /// `mask_over` in CUDA; empty where nothing can be derived.
    pub over: String,
    /// `kv_bounds` in CUDA, or empty.
    pub bounds: String,
    /// The statements of `remap_over` in Rust, for a variant with remapping hooks.
    pub remap_rust: Option<TokenStream>,
    /// `remap_over` in CUDA, or empty.
    pub remap: String,
    /// Parameter tensors whose intervals over index ranges are needed, by their Rust names.
    pub tables: Vec<String>,
    /// Why nothing, or not all, can be derived from a mask; empty where all is.
    pub why_not: &'static str,
}

/// Derives as much as the subset allows; `generics` are the constants of a generic variant.
#[must_use]
pub fn derived(functions: &[Function], types: &Types, generics: &[Generic], links: &Links) -> DerivedMask {
    let names = RustNames { links, generics, fix: &syn::Path::clone };
    let mask = functions.iter().find(|f| f.name == "logits_mask");
    // beyond the budget nothing is known of tiles: that is slow, but right
    let (mut mask, enough) =
        budget::within(budget::MASK_STEPS, || mask.map(|f| of_mask(f, types, &names)).unwrap_or_default());
    if !enough {
        mask = DerivedMask { why_not: lowering::TOO_LONG, ..DerivedMask::default() };
    }
    remap(functions, types, &names, &mut mask);
    mask
}

/// A helper over abstract values, in Rust and in CUDA.
#[must_use]
pub fn helper(
    f: &Function,
    types: &Types,
    generics: &[Generic],
    links: &Links,
    fix: &dyn Fn(&syn::Path) -> syn::Path,
) -> (TokenStream, String) {
    let (form, _) = budget::within(budget::MASK_STEPS, || lowering::of(f, types, generics));
    let args = generics.len() + f.args.len();
    let names = RustNames { links, generics: &[], fix };
    (emit_rust::helper(&form, args, &names), emit_cuda::helper(&form, &crate::names::helper(&f.name), args))
}

/// Derives the coordinates of a remapped tile.
fn remap(functions: &[Function], types: &Types, names: &RustNames<'_>, mask: &mut DerivedMask) {
    let (mut rust, mut cuda) = (TokenStream::new(), String::new());
    for (hook, word) in [("remap_qo_pos", "qo_pos"), ("remap_kv_pos", "kv_pos")] {
        if let Some(f) = functions.iter().find(|f| f.name == hook) {
            let form = lowering::of(f, types, &[]);
            rust.extend(emit_rust::set_coordinate(&form, word, names));
            cuda += &emit_cuda::set_coordinate(&form, word);
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

/// Derives the mask of a tile.
fn of_mask(f: &Function, types: &Types, names: &RustNames<'_>) -> DerivedMask {
    let form = lowering::of(f, types, &[]);
    if matches!(form.nodes[form.result], Node::Any) {
        return DerivedMask { why_not: form.why_not.unwrap_or(lowering::FLOATS), ..DerivedMask::default() };
    }
    // a part of the mask is unknown, for the first of the reasons
    let unknown = form.nodes.iter().zip(form.uses()).any(|(node, uses)| uses > 0 && matches!(node, Node::Any));
    DerivedMask {
        why_not: form.why_not.filter(|_| unknown).unwrap_or_default(),
        rust: Some(emit_rust::body(&form, names)),
        over: emit_cuda::mask_over(&form),
        bounds: kv_interval::kv_bounds(&form),
        tables: form.tables(),
        ..DerivedMask::default()
    }
}

#[cfg(test)]
mod tests;
