//! Tile classes, derived from the Rust of `logits_mask` by abstract interpretation over intervals and known bits (cf.
//! LLVM's ConstantRange and KnownBits).
//!
//! `lowering` turns the body of a mask or helper into its normal form: one expression without statements. A `let`
//! becomes a name; branches, early `return`s and unrolled loops become selects. `emit_rust` and `emit_cuda` write that
//! expression over abstract values (`attn_core::lang::interval`, `lang/interval.cuh`), whose functions have the names
//! used here. `kv_interval` recognises masks that are one interval of keys per row.

mod effects;
mod emit_cuda;
pub(crate) mod emit_rust;
pub mod interval_fn;
mod kv_interval;
mod lower_control;
mod lower_expr;
mod lower_loop;
mod lowering;
pub mod normal_form;
mod range_set;
mod ranges;

use crate::{budget, ir::Function, types::Types};
pub(crate) use lowering::{MOST_ELEMENTS, position};
use normal_form::{Generic, Node, NormalForm};

/// What is derived from a variant's mask and remapping hooks.
#[derive(Debug, Default)]
pub struct DerivedMask {
    /// The mask; `None` where nothing can be derived.
    pub form: Option<NormalForm>,
    /// `mask_over` in CUDA; empty where nothing can be derived.
    pub over: String,
    /// `kv_bounds` in CUDA, or empty.
    pub bounds: String,
    /// What remapping hooks compute, each with the coordinate that it sets.
    pub remaps: Vec<(&'static str, NormalForm)>,
    /// `remap_over` in CUDA, or empty.
    pub remap: String,
    /// Parameter tensors whose intervals over index ranges are needed, by their Rust names.
    pub tables: Vec<String>,
    /// Why nothing, or not all, can be derived from a mask; empty where all is.
    pub why_not: &'static str,
}

/// Derives as much as the subset allows.
pub fn derived(functions: &[Function], types: &Types) -> DerivedMask {
    let mask = functions.iter().find(|f| f.name == "logits_mask");
    // beyond the budget nothing is known of tiles: that is slow, but right
    let (mut mask, enough) = budget::within(budget::MASK_STEPS, || mask.map(|f| of_mask(f, types)).unwrap_or_default());
    if !enough {
        mask = DerivedMask { why_not: lowering::TOO_LONG, ..DerivedMask::default() };
    }
    remap(functions, types, &mut mask);
    mask
}

/// A helper over abstract values, and its text in CUDA. The constants that it is generic over are its first arguments.
pub fn helper(f: &Function, types: &Types, generics: &[Generic]) -> (NormalForm, String) {
    let (form, _) = budget::within(budget::MASK_STEPS, || lowering::of(f, types, generics));
    let cuda = emit_cuda::helper(&form, &crate::names::helper(&f.name));
    (form, cuda)
}

/// Derives the coordinates of a remapped tile.
fn remap(functions: &[Function], types: &Types, mask: &mut DerivedMask) {
    for (hook, word) in [("remap_qo_pos", "qo_pos"), ("remap_kv_pos", "kv_pos")] {
        if let Some(f) = functions.iter().find(|f| f.name == hook) {
            mask.remaps.push((word, lowering::of(f, types, &[])));
        }
    }
    if !mask.remaps.is_empty() {
        mask.tables.extend(mask.remaps.iter().flat_map(|(_, form)| form.tables()));
        mask.tables.sort();
        mask.tables.dedup();
        let cuda: String = mask.remaps.iter().map(|(word, form)| emit_cuda::set_coordinate(form, word)).collect();
        mask.remap =
            format!("ATTN_FN Tile remap_over(const Tile& at) const {{\n  Tile to = at;\n{cuda}  return to;\n}}\n");
    }
}

/// Derives the mask of a tile.
fn of_mask(f: &Function, types: &Types) -> DerivedMask {
    let form = lowering::of(f, types, &[]);
    if matches!(form.nodes[form.result], Node::Any) {
        return DerivedMask { why_not: form.why_not.unwrap_or(lowering::FLOATS), ..DerivedMask::default() };
    }
    // a part of the mask is unknown, for the first of the reasons
    let unknown = form.nodes.iter().zip(form.uses()).any(|(node, uses)| uses > 0 && matches!(node, Node::Any));
    DerivedMask {
        why_not: form.why_not.filter(|_| unknown).unwrap_or_default(),
        over: emit_cuda::mask_over(&form),
        bounds: kv_interval::kv_bounds(&form),
        tables: form.tables(),
        form: Some(form),
        ..DerivedMask::default()
    }
}

#[cfg(test)]
mod tests;
