//! The translation unit of a mixed kernel: the templates of prefill and of decode in one text.
//!
//! Templates that depend on no constants of a kernel family are included once. The others are included once per family,
//! in its namespace, which begins with the constants of its part.

use attn_core::expr::Variant;

use super::templates::{self, Inliner};
use super::{SpliceError, traits_block, variant, wgmma};
use crate::kernel_traits::KernelTraits;

/// Templates that do not depend on the kernel family; they are included once, with everything that they include.
const COMMON: [&str; 9] = [
    "abi/launch_params.cuh",
    "memory/address.cuh",
    "memory/row.cuh",
    "arch/ptx.cuh",
    "softmax/score_element.cuh",
    "memory/kv_scales.cuh",
    "softmax/finalize.cuh",
    UNITS,
    "memory/half_row.cuh",
];

/// A template that depends on whether a kernel family is sm90 prefill.
const UNITS: &str = "softmax/units.cuh";

/// The same, over rows of KV formats.
const PACKED: [&str; 2] = ["memory/shared_bytes.cuh", "memory/packed_row.cuh"];

pub(super) fn text(name: &str, of: &Variant, traits: &KernelTraits) -> Result<String, SpliceError> {
    let mut unit = Inliner::of_kernel(name, traits)?;
    unit.push(&format!("\n#line 1 \"traits\"\n{}\n", traits_block::common(traits)));
    unit.push(&variant::variant_source(of)?);
    let of_formats = if traits.common.packed.is_some() { &PACKED[..] } else { &[] };
    let sm90 = traits.is_sm90_prefill();
    let common = COMMON.iter().filter(|&&file| !sm90 || file != UNITS);
    common.chain(of_formats).chain(&templates::row_access(traits)).try_for_each(|file| unit.include(file))?;
    let (decode, prefill) = (traits.decode_part(), traits.prefill_part());
    // the constants of a part, and for sm90 prefill its instructions
    let own = |part: &KernelTraits| {
        let wgmma = if part.is_sm90_prefill() { wgmma::text(part) } else { String::new() };
        if sm90 { traits_block::sm90_prefill(part) + &wgmma } else { wgmma }
    };
    part(&mut unit, "decode", traits, &decode, &own(&decode), decode.facts().part_headers)?;
    let rolled = !prefill.facts().has_workers && variant::has_long_hooks(of);
    let mut files: Vec<_> = rolled.then_some(templates::ROLLED_SCORES).into_iter().collect();
    files.extend(prefill.facts().part_headers);
    files.extend(traits.has_kv_preprocess().then_some("preprocess/kv_transform.cuh"));
    files.push("merge/kernel.cuh");
    part(&mut unit, "prefill", traits, &prefill, &own(&prefill), &files)?;
    traits.facts().headers.iter().try_for_each(|header| unit.include(header))?;
    unit.push(&traits_block::checks(traits));
    Ok(unit.finish())
}

/// Includes templates in a namespace, behind the constants of its part and the text `own`, with what they include and
/// the unit does not have yet. The next part includes its own.
fn part(
    unit: &mut Inliner,
    namespace: &str,
    mixed: &KernelTraits,
    traits: &KernelTraits,
    own: &str,
    files: &[&str],
) -> Result<(), SpliceError> {
    unit.push(&format!(
        "\nnamespace {namespace} {{\n\n#line 1 \"traits\"\n{}{own}",
        traits_block::family(traits, mixed.facts().tile_keys)
    ));
    unit.scoped(|unit| files.iter().try_for_each(|file| unit.include(file)))?;
    unit.push(&format!("\n}}  // namespace {namespace}\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use attn_core::dtype::Dtypes;
    use attn_core::expr::Variant;
    use attn_core::spec::{KernelKind, PrefillBackend};

    use crate::compile::Arch;
    use crate::kernel_traits::{KernelTraits, KernelTraitsRequest};
    use crate::splice::KernelSource;

    /// The mixed kernel of a backend at head_dim 128, with a group of 4.
    fn traits(prefill: PrefillBackend, shared_rows: bool) -> KernelTraits {
        let request = KernelTraitsRequest {
            group: 4,
            prefill,
            shared_rows,
            ..KernelTraitsRequest::new(KernelKind::Mixed, 128, Dtypes::bf16(), Arch::for_device(9, 0))
        };
        KernelTraits::choose(&request).expect("supported")
    }

    /// Shared templates are included once, and those of a family once in its namespace.
    #[test]
    fn each_family_has_its_own_templates_and_constants() {
        for (prefill, shared_rows) in
            [(PrefillBackend::Sm80, false), (PrefillBackend::Sm80, true), (PrefillBackend::Sm90, false)]
        {
            let text = KernelSource::build(&Variant::full(), &traits(prefill, shared_rows)).expect("supported").text;
            let count = |what: &str| text.matches(what).count();
            assert_eq!(
                (count("struct KernelParams {"), count("struct Variant {"), count("struct Request ")),
                (1, 1, 1)
            );
            assert_eq!((count("class KvRange {"), count("constexpr int TILE_ROWS = ")), (2, 2));
            assert_eq!((count("class KvLoadIter {"), count("class KvTileIter {")), (1, 1));
            let at = |what: &str| text.find(what).expect(what);
            let parts = [at("namespace decode {"), at("class KvLoadIter {"), at("namespace prefill {")];
            assert!(parts.is_sorted() && parts[2] < at("class KvTileIter {"));
            assert!(at("class KvTileIter {") < at("    attn_mixed("));
            assert!(text.contains(&format!("SHARED_ROWS = {shared_rows}")));
            assert_eq!(
                (count("    attn_mixed("), count("    attn_merge(")),
                (1, 1),
                "the merge is a launch of its own"
            );
        }
    }

    #[test]
    fn only_the_prefill_part_is_sm90_prefill() {
        let of = |prefill, shared_rows| {
            let traits = traits(prefill, shared_rows);
            let text = KernelSource::build(&Variant::full(), &traits).expect("supported").text;
            (
                traits.is_sm90_prefill(),
                ["true", "false"].map(|is| text.matches(&format!("SM90_PREFILL = {is}")).count()),
            )
        };
        assert_eq!(of(PrefillBackend::Sm90, false), (true, [1, 1]));
        assert_eq!(of(PrefillBackend::Sm80, false), (false, [0, 1]));
        assert_eq!(of(PrefillBackend::Sm90, true), (false, [0, 1]), "cascades");
    }
}
