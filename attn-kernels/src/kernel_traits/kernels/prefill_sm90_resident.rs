//! Sm90 prefill of requests whose keys fit one KV tile, which stays in shared memory while Q tiles pass.

use attn_core::batch::Layout;
use attn_core::plan::PlanRule;
use attn_core::spec::{ComputeType, Heads, PrefillBackend};

use super::prefill_sm90::PrefillSm90;
use super::{CommonTraits, Facts, Kernel, KernelTraitsRequest, Preprocessed, WARPGROUP_ROWS};

/// The most Q tiles of a work item.
pub const RESIDENT_Q_TILES: u32 = 12;
/// Consumer warpgroups. The third hides the steps of the others, since O and S are never in registers at a time.
const CONSUMERS: u32 = 3;
/// Keys after which the swizzle of shared memory repeats: TMA loads pages of a multiple of them.
const PATTERN_KEYS: u32 = 8;

/// Sm90 prefill whose work items are up to [`RESIDENT_Q_TILES`] Q tiles of a request, each of a warpgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefillSm90Resident(PrefillSm90);

impl PrefillSm90Resident {
    /// There is none for rows of other than 128 elements: for some of them ptxas lacks registers, and serialises WGMMA.
    pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        let named = request.prefill == PrefillBackend::Sm90Resident && request.compute_type == ComputeType::Exact;
        if !named || [common.head_dim, common.value_dim] != [128; 2] {
            return None;
        }
        let of = PrefillSm90 { tile_rows: CONSUMERS * WARPGROUP_ROWS, ..PrefillSm90::choose(request, common)? };
        // warpgroups store O while others read Q
        (of.smem(common).outputs > 0).then_some(Self(of))
    }
}

/// Rows of a Q tile for a group of query heads: the whole tokens that fit a warpgroup, since TMA loads these. Larger
/// groups have all rows, which TMA does not load.
pub fn resident_tile_rows(group: u32) -> u32 {
    match WARPGROUP_ROWS.checked_rem(group) {
        Some(rest) if rest < WARPGROUP_ROWS => WARPGROUP_ROWS - rest,
        _ => WARPGROUP_ROWS,
    }
}

impl Kernel for PrefillSm90Resident {
    fn facts(&self) -> Facts {
        let headers = &["prefill/sm90/resident/cta.cuh", "prefill/sm90/kernel.cuh"];
        // Resident keys are read once and need no L2. So rows of Q, O and pages, which have all heads of a token, are
        // in use at once.
        let special = Some(PrefillBackend::Sm90Resident);
        Facts { headers, part_headers: &[], special, interleaves_all_heads: true, ..self.0.facts() }
    }
    fn name(&self) -> String {
        " wgmma resident".to_owned()
    }
    fn own_constants(&self, common: &CommonTraits) -> String {
        // Q stages are of a warpgroup each
        let smem = self.0.smem(common);
        smem.constants(smem.query_stages * CONSUMERS, true)
    }
    fn smem_bytes(&self, common: &CommonTraits) -> u32 {
        self.0.smem_bytes(common)
    }
    fn query_rows(&self, group: u32) -> [u32; 2] {
        [resident_tile_rows(group); 2]
    }
    /// An item has as many Q tiles as leave each CTA about four items, the items of the longest request alike, and its
    /// keys are not split.
    fn rule_of_batch(&self, rule: PlanRule, layout: &Layout, heads: Heads, resident_ctas: u32) -> PlanRule {
        const ITEMS_OF_CTA: u64 = 4;
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
    fn runs(&self, layout: &Layout) -> bool {
        let longest = layout.kv_indptr().windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
        i64::from(longest) <= i64::from(self.0.tile_keys)
    }
    /// With keys and values as they are stored.
    fn is_faster(&self, common: &CommonTraits) -> bool {
        common.packed.is_none() && self.0.preprocessed == Preprocessed::default()
    }
    /// TMA loads its keys and queries.
    fn suits(&self, layout: &Layout, heads: Heads) -> bool {
        let by_tma = layout.pages().is_none_or(|pages| pages.page_size().is_multiple_of(PATTERN_KEYS));
        by_tma && heads.group() <= WARPGROUP_ROWS
    }
}
