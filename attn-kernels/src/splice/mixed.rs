//! The unit of a mixed kernel: the templates of prefill and of decode in one text.
//!
//! What depends on neither family's constants is there once. The rest is there twice, in a namespace for each family, which begins with the
//! constants of its part of the cell.

use super::{SpliceError, cell_block, templates::Inliner};
use crate::cell::Cell;

/// Templates that know of no family, and everything that they include.
const COMMON: [&str; 9] = [
    "memory/address.cuh",
    "memory/row.cuh",
    "arch/ptx.cuh",
    "softmax/score_element.cuh",
    "memory/kv_scales.cuh",
    "softmax/finalize.cuh",
    "softmax/units.cuh",
    "memory/half_row.cuh",
    "schedule/work_list.cuh",
];

pub(super) fn text(name: &str, variant_struct: &str, cell: &Cell) -> Result<String, SpliceError> {
    let mut unit = Inliner::default();
    unit.push(&format!("// attn-rs, {name}\n"));
    for file in ["arch/element.cuh", "lang/lang.cuh", "abi/kernel_params.cuh"] {
        unit.include(file)?;
    }
    unit.push(&format!("\n#line 1 \"cell\"\n{}\n", cell_block::common(cell)));
    unit.push(variant_struct);
    COMMON.iter().try_for_each(|file| unit.include(file))?;
    let prefill: &[&str] = if cell.has_kv_pass() {
        &["prefill/sm80/mainloop.cuh", "preprocess/kv_transform.cuh", "merge/kernel.cuh"]
    } else {
        &["prefill/sm80/mainloop.cuh", "merge/kernel.cuh"]
    };
    part(&mut unit, "decode", &cell.decode_part(), &["decode/worker.cuh"])?;
    part(&mut unit, "prefill", &cell.prefill_part(), prefill)?;
    unit.include("mixed/kernel.cuh")?;
    unit.push(&cell_block::checks(cell));
    Ok(unit.finish())
}

/// Templates in a namespace, with what they include that is not in the unit yet; the next part has its own.
fn part(unit: &mut Inliner, namespace: &str, cell: &Cell, files: &[&str]) -> Result<(), SpliceError> {
    unit.push(&format!("\nnamespace {namespace} {{\n\n#line 1 \"cell\"\n{}", cell_block::family(cell)));
    unit.apart(|unit| files.iter().try_for_each(|file| unit.include(file)))?;
    unit.push(&format!("\n}}  // namespace {namespace}\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use attn_core::{
        dtype::Dtypes,
        expr::Variant,
        spec::{KernelKind, PrefillTemplate, ValueRows},
    };

    use crate::{
        cell::{Cell, CellRequest},
        compile::Arch,
        splice::KernelSource,
    };

    /// What is of no family is there once, and what is of one, once in each namespace.
    #[test]
    fn each_family_has_templates_and_constants_of_its_own() {
        let request = CellRequest {
            kind: KernelKind::Mixed,
            head_dim: 128,
            values: ValueRows::Same,
            dtypes: Dtypes::bf16(),
            paged: true,
            group: 4,
            key_hooks: false,
            value_hooks: false,
            arch: Arch::new(9, 0),
            key_lists: false,
            template: PrefillTemplate::default(),
        };
        let cell = Cell::choose(&request).expect("supported").with_shared_rows();
        let text = KernelSource::build(&Variant::full(), &cell).expect("supported").text;
        let count = |what: &str| text.matches(what).count();
        assert_eq!((count("struct KernelParams {"), count("struct Variant {"), count("struct Request ")), (1, 1, 1));
        assert_eq!((count("class SpanKeys {"), count("constexpr int TILE_ROWS = ")), (2, 2));
        assert_eq!((count("class KeyFeed {"), count("class TileCursor {")), (1, 1));
        let at = |what: &str| text.find(what).expect(what);
        assert!(at("namespace decode {") < at("class KeyFeed {") && at("class KeyFeed {") < at("namespace prefill {"));
        assert!(at("namespace prefill {") < at("class TileCursor {") && at("class TileCursor {") < at("attn_mixed("));
        assert!(text.contains("SHARED_ROWS = true"));
        assert_eq!(
            (count("    attn_mixed("), count("    attn_merge(")),
            (1, 1),
            "states meet in a launch of their own"
        );
    }
}
