//! Sm90 prefill of requests whose keys fit one KV tile, which stays in shared memory while Q tiles pass.

use attn_core::batch::Layout;
use attn_core::plan::PlanRule;
use attn_core::spec::{Heads, PrefillBackend};

use super::prefill_sm90::{self, PREFILL_SM90, WARPGROUP_ROWS};
use super::{CommonTraits, Facts, KernelTraitsRequest};

/// The most Q tiles of a work item.
pub const RESIDENT_Q_TILES: u32 = 12;
/// Consumer warpgroups. The third hides the steps of the others, since O and S are never in registers at a time.
const CONSUMERS: u32 = 3;
/// Keys after which the swizzle of shared memory repeats: TMA loads pages of a multiple of them.
const PATTERN_KEYS: u32 = 8;

/// The kernel without its tiles.
pub(super) const PREFILL_SM90_RESIDENT: Facts = Facts {
    name: " wgmma resident",
    headers: &["prefill/sm90/resident/cta.cuh", "prefill/sm90/kernel.cuh"],
    part_headers: &[],
    special: Some(PrefillBackend::Sm90Resident),
    // Resident keys are read once and need no L2. So rows of Q, O and pages, which have all heads of a token, are in
    // use at once.
    interleaves_all_heads: true,
    ..PREFILL_SM90
};

/// Sm90 prefill whose work items are up to [`RESIDENT_Q_TILES`] Q tiles of a request, each of a warpgroup. There is
/// none for rows of other than 128 elements: for some of them ptxas lacks registers, and serialises WGMMA.
pub(super) fn tiles(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Facts> {
    if request.key_lists || [common.head_dim, common.value_dim] != [128; 2] {
        return None;
    }
    let Facts { tile_keys, stages, preprocessed, .. } = prefill_sm90::tiles(request, common)?;
    let of = Facts { tile_keys, stages, preprocessed, ..PREFILL_SM90_RESIDENT };
    let of = prefill_sm90::with_rows(common, of, CONSUMERS * WARPGROUP_ROWS);
    // Warpgroups store O while others read Q. Q stages are of a warpgroup each.
    (of.smem_o_bytes > 0).then_some(Facts { q_stages: of.q_stages * CONSUMERS, ..of })
}

/// Rows of a Q tile for a group of query heads: the whole tokens that fit a warpgroup, since TMA loads these. Larger
/// groups have all rows, which TMA does not load.
pub fn resident_tile_rows(group: u32) -> u32 {
    WARPGROUP_ROWS - WARPGROUP_ROWS.checked_rem(group).filter(|&rest| rest < WARPGROUP_ROWS).unwrap_or(0)
}

impl Facts {
    /// Sm90 prefill: PackGQA rows that TMA loads at a time if they are whole tokens, and all that it loads of Q.
    pub fn query_rows(&self, group: u32) -> [u32; 2] {
        if self.special.is_some() { [resident_tile_rows(group); 2] } else { [WARPGROUP_ROWS, self.cta_rows()] }
    }

    /// The rule for one batch without levels, on `resident_ctas` CTAs. An item of resident keys has as many Q tiles as
    /// leave each CTA about four items, those of the longest request alike, and its keys are not split.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))] // plans of the CUDA layer ask
    pub(crate) fn rule_of_batch(&self, rule: PlanRule, layout: &Layout, heads: Heads, resident_ctas: u32) -> PlanRule {
        const ITEMS_OF_CTA: u64 = 4;
        if self.special.is_none() {
            return rule;
        }
        let tile_rows = resident_tile_rows(heads.group());
        let tiles = layout.qo_indptr().windows(2).map(|ends| {
            let rows = u64::from(ends[1].abs_diff(ends[0])) * u64::from(heads.group());
            rows.div_ceil(tile_rows.into())
        });
        let ctas = ITEMS_OF_CTA * u64::from(resident_ctas.max(1));
        let all = tiles.clone().sum::<u64>() * u64::from(heads.kv);
        let most = ((all + ctas / 2) / ctas).clamp(1, RESIDENT_Q_TILES.into());
        let longest = tiles.max().unwrap_or(0).max(1);
        let q_tiles = longest.div_ceil(longest.div_ceil(most)) as u32;
        PlanRule { tile_rows: q_tiles * tile_rows, workers: 1, ..rule }
    }

    /// A special kernel: whether it runs a batch without levels for which its family was selected, as one that options
    /// name, or because it was measured to be faster than the usual one: with keys and values as they are stored, and
    /// where TMA loads resident keys and their queries.
    pub(crate) fn runs(&self, layout: &Layout, heads: Heads, is_named: bool) -> bool {
        let by_tma = layout.pages().is_none_or(|pages| pages.page_size().is_multiple_of(PATTERN_KEYS));
        let is_faster = self.preprocessed == [false; 2] && by_tma && heads.group() <= WARPGROUP_ROWS;
        let fits = |ends: &[i32]| i64::from(ends[1] - ends[0]) <= i64::from(self.tile_keys);
        (is_named || is_faster) && layout.kv_indptr().windows(2).all(fits)
    }
}
