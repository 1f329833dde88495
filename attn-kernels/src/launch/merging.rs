//! The launch of the merge kernel.

use attn_core::{
    plan::MERGE_ROWS,
    spec::{Heads, KernelKind},
};

use crate::kernel_traits::{KernelTraits, row_lanes};

/// Threads of a CTA of the merge kernel.
pub const MERGE_THREADS: u32 = 128;

/// CTAs of the merge kernel that an SM holds, so that none waits for a second wave.
const CTAS_PER_SM: u32 = 4;

/// The most CTAs of a merge, which a grid has in y.
const MAX_CTAS: u32 = 65_535;

/// The grid of the merge kernel. A merge has as many CTAs as the rows of one query need with a team of lanes each;
/// while they leave SMs idle, more, for further rows, and for those with many partials, which have several teams. CTAs
/// without rows end at once. No result depends on their number.
pub fn merge_grid(traits: &KernelTraits, merges: u32, heads: Heads, multiprocessors: u32) -> [u32; 2] {
    let teams = MERGE_THREADS / row_lanes(traits.common.value_dim);
    let rows = if traits.kind() == KernelKind::Mixed { MERGE_ROWS } else { traits.facts().tile_rows };
    let resident = CTAS_PER_SM.saturating_mul(multiprocessors) / merges.max(1);
    let useful = resident.min(heads.kv.saturating_mul(rows));
    [merges, heads.qo.div_ceil(teams).max(useful).min(MAX_CTAS)]
}

#[cfg(test)]
mod tests {
    use attn_core::dtype::Dtypes;
    use attn_core::spec::PrefillBackend;

    use super::*;
    use crate::compile::Arch;
    use crate::kernel_traits::KernelTraitsRequest;

    fn grid(kind: KernelKind, head_dim: u32, merges: u32, [qo, kv]: [u32; 2]) -> [u32; 2] {
        let request = KernelTraitsRequest {
            group: qo / kv,
            prefill: PrefillBackend::Sm80,
            ..KernelTraitsRequest::new(kind, head_dim, Dtypes::bf16(), Arch::for_device(9, 0))
        };
        let traits = KernelTraits::choose(&request).expect("supported");
        merge_grid(&traits, merges, Heads { qo, kv, head_dim }, 132)
    }

    #[test]
    fn merges_of_a_mixed_launch_fill_a_wave() {
        let mixed = |merges, heads| grid(KernelKind::Mixed, 128, merges, heads);
        assert_eq!(mixed(64, [32, 32]), [64, 8], "528 CTAs are resident");
        assert_eq!(mixed(64, [32, 8]), [64, 8]);
        assert_eq!(mixed(1024, [32, 8]), [1024, 4], "eight rows a CTA");
        assert_eq!(mixed(1, [4, 1]), [1, 16], "no more than a merge has rows");
        assert_eq!(mixed(0, [4, 1])[0], 0);
        assert_eq!(grid(KernelKind::Mixed, 64, 1024, [32, 8]), [1024, 2], "sixteen rows a CTA");
    }

    #[test]
    fn a_few_merges_of_prefill_tiles_fill_a_wave() {
        let prefill = |merges, heads| grid(KernelKind::Prefill, 128, merges, heads);
        assert_eq!(prefill(2, [32, 8]), [2, 264]);
        assert_eq!(prefill(2, [4, 1]), [2, 128], "no more than a tile has rows");
        assert_eq!(prefill(1024, [32, 8]), [1024, 4], "eight rows a CTA");
    }
}
