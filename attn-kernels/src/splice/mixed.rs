//! The translation unit of a mixed kernel: the templates of prefill and of decode in one text.
//!
//! Templates that depend on no constants of a kernel family are included once. The others are included once per family,
//! in its namespace, which begins with the constants of its part.

use super::{
    SpliceError,
    templates::{self, Inliner},
    traits_block, variant,
};
use crate::kernel_traits::KernelTraits;

/// Templates that do not depend on the kernel family; they are included once, with everything that they include.
const COMMON: [&str; 8] = [
    "memory/address.cuh",
    "memory/row.cuh",
    "arch/ptx.cuh",
    "softmax/score_element.cuh",
    "memory/kv_scales.cuh",
    "softmax/finalize.cuh",
    "softmax/units.cuh",
    "memory/half_row.cuh",
];

/// The same, over rows of KV formats.
const PACKED: [&str; 2] = ["memory/shared_bytes.cuh", "memory/packed_row.cuh"];

pub(super) fn text(name: &str, variant_struct: &str, traits: &KernelTraits) -> Result<String, SpliceError> {
    let mut unit = Inliner::of_kernel(name, traits)?;
    unit.push(&format!("\n#line 1 \"traits\"\n{}\n", traits_block::common(traits)));
    unit.push(variant_struct);
    let of_formats = if traits.packed.is_some() { &PACKED[..] } else { &[] };
    COMMON.iter().chain(of_formats).try_for_each(|file| unit.include(file))?;
    let (decode, prefill) = (traits.decode_part(), traits.prefill_part());
    part(&mut unit, "decode", &decode, &[templates::worker_mainloop(&decode), "decode/worker.cuh"])?;
    let mut files = match prefill.cuda_cores {
        true => vec![templates::worker_mainloop(&prefill), "decode/worker.cuh"],
        false if variant::has_long_hooks(variant_struct) => vec![templates::ROLLED_SCORES, "prefill/sm80/mainloop.cuh"],
        false => vec!["prefill/sm80/mainloop.cuh"],
    };
    files.extend(traits.has_kv_preprocess().then_some("preprocess/kv_transform.cuh"));
    files.push("merge/kernel.cuh");
    part(&mut unit, "prefill", &prefill, &files)?;
    unit.include("mixed/kernel.cuh")?;
    unit.push(&traits_block::checks(traits));
    Ok(unit.finish())
}

/// Includes templates in a namespace, with what they include and the unit does not have yet. The next part includes its
/// own.
fn part(unit: &mut Inliner, namespace: &str, traits: &KernelTraits, files: &[&str]) -> Result<(), SpliceError> {
    unit.push(&format!("\nnamespace {namespace} {{\n\n#line 1 \"traits\"\n{}", traits_block::family(traits)));
    unit.scoped(|unit| files.iter().try_for_each(|file| unit.include(file)))?;
    unit.push(&format!("\n}}  // namespace {namespace}\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use attn_core::{dtype::Dtypes, expr::Variant, spec::KernelKind};

    use crate::{
        compile::Arch,
        kernel_traits::{KernelTraits, KernelTraitsRequest},
        splice::KernelSource,
    };

    /// Shared templates are included once, and those of a family once in its namespace.
    #[test]
    fn each_family_has_its_own_templates_and_constants() {
        let request = KernelTraitsRequest {
            group: 4,
            ..KernelTraitsRequest::new(KernelKind::Mixed, 128, Dtypes::bf16(), Arch::new(9, 0))
        };
        let traits = KernelTraits::choose(&request).expect("supported").with_shared_rows();
        let text = KernelSource::build(&Variant::full(), &traits).expect("supported").text;
        let count = |what: &str| text.matches(what).count();
        assert_eq!((count("struct KernelParams {"), count("struct Variant {"), count("struct Request ")), (1, 1, 1));
        assert_eq!((count("class KvRange {"), count("constexpr int TILE_ROWS = ")), (2, 2));
        assert_eq!((count("class KvLoadIter {"), count("class KvTileIter {")), (1, 1));
        let at = |what: &str| text.find(what).expect(what);
        assert!(
            at("namespace decode {") < at("class KvLoadIter {") && at("class KvLoadIter {") < at("namespace prefill {")
        );
        assert!(at("namespace prefill {") < at("class KvTileIter {") && at("class KvTileIter {") < at("attn_mixed("));
        assert!(text.contains("SHARED_ROWS = true"));
        assert_eq!((count("    attn_mixed("), count("    attn_merge(")), (1, 1), "the merge is a launch of its own");
    }
}
