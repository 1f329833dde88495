//! The scratch memory of the planner kernel: in shared memory, or in the workspace where it is too large for that.

use attn_core::plan::{ListRule, MixedRule, PartCapacity, PlanCapacity, Schedule, WorkItem};

/// The most shared memory that the planner kernel may take, in bytes: every supported GPU has this much.
pub const PLAN_SHARED_BYTES: usize = 96 << 10;

/// Bytes of scratch memory of the planner kernel: for a mixed list of `MixedScratch` in cuda/planner/mixed_tiles.cuh,
/// under stream-K of `PlannerScratch` in cuda/planner/memory.cuh, else of `SplitScratch` in
/// cuda/planner/split_tiles.cuh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannerScratch {
    /// The order of items.
    pub order: usize,
    /// All else.
    pub rest: usize,
    /// Tiles that the CTAs find that do not plan; in the workspace.
    pub found: usize,
}

/// Bytes of the counters of a sort, `SORT_COUNTERS` of cuda/planner/sort.cuh.
const SORT_BYTES: usize = 1024 * 4;
/// More tiles are found by several CTAs, as of cuda/planner/found_tiles.cuh.
const TILES_OF_A_CTA: usize = 64;
/// As many items are sorted in shared memory, `FEW_NUMBERS` of cuda/planner/sort.cuh.
const FEW_ITEMS: usize = 512;
/// Bytes of a `SplitTile` of cuda/planner/tile_splits.cuh.
const TILE_BYTES: usize = 12;

/// Bytes for the tiles of a list that may have so many.
fn found(tiles: usize) -> usize {
    if tiles > TILES_OF_A_CTA { (tiles * TILE_BYTES).next_multiple_of(8) } else { 0 }
}

impl PlannerScratch {
    /// The memory for a list within a capacity, without a union.
    pub fn of(lists: &PlanCapacity, rule: &ListRule) -> Self {
        let rule = match rule {
            ListRule::Flat(rule) => rule,
            ListRule::Mixed(rule) => return Self::of_mixed(lists, rule),
        };
        let PartCapacity { items, workers } = lists.parts.first().copied().unwrap_or_default();
        let starts = match rule.schedule {
            // per tile: a work item and its end; per worker: a KV split, a cut, its first item, a merge's first split
            Schedule::StreamK => {
                let rest = items * (size_of::<WorkItem>() + 8) + (workers + 1) * (16 + 8 + 4 + 4) + 16;
                return PlannerScratch { order: 0, rest, found: 0 };
            }
            // as many tiles as workers are not cut
            Schedule::LongestFirst => items.min(rule.workers as usize),
            Schedule::FixedSplit { .. } => items,
        };
        // per request: its lengths, first key token and first tile; per tile: its visible blocks and request; where
        // tiles are cut: items and merges before
        let rest = lists.requests * 24 + items * TILE_BYTES + starts * 8;
        PlannerScratch { order: items * 8 + SORT_BYTES, rest: rest.next_multiple_of(8), found: found(items) }
    }

    /// The memory for a mixed list.
    fn of_mixed(lists: &PlanCapacity, rule: &MixedRule) -> Self {
        let (requests, items) = (lists.requests, lists.parts.get(1).map_or(0, |part| part.items));
        let (tiles, workers) = (items.max(requests), rule.decode.workers as usize);
        let starts = tiles.min(rule.prefill.workers as usize);
        // per request: its lengths, first key token, tiles and items before, and its number in the prefill part; per
        // decode worker: a KV split, a cut, its first item, a tile's first split and states; per tile: its visible
        // blocks and request; where prefill tiles are cut: items and cut tiles before, and states
        let rest =
            requests * 36 + (workers + 1) * (16 + 8 + 4 + 4) + workers * 12 + tiles * TILE_BYTES + starts * 20 + 4;
        let found = found(tiles);
        let order = requests.max(if found > 0 { items.div_ceil(2).max(items.min(FEW_ITEMS)) } else { items });
        PlannerScratch { order: order * 8 + SORT_BYTES, rest: rest.next_multiple_of(8), found }
    }

    /// The memory for a cascade within a capacity with levels: `CascadeScratch` in cuda/planner/cascade_memory.cuh.
    pub fn of_cascade(lists: &PlanCapacity, rule: &MixedRule) -> Self {
        let (requests, groups) = (lists.requests + 1, lists.levels * lists.requests);
        let tiles: usize = lists.parts.iter().map(|part| part.items).sum();
        let (workers, starts) = (rule.decode.workers as usize + 1, tiles.min(rule.prefill.workers as usize));
        // per request: its lengths, and what is before it; per segment: itself; per level and request: a group, a
        // segment, a part and the tiles before; per request without keys: the tiles before; per tile: itself, and its
        // place in its part; per decode worker: a KV split, a cut, its first item and a tile's first split; where
        // prefill tiles are cut: items and cut tiles before; per unit: states before it in each level, its first state,
        // and its rows that are merged
        let of_lengths = requests * 32 + lists.segments * 32 + groups * (8 + 4 + 4 + 4) + lists.requests * 4;
        let of_tiles = tiles * (52 + 12) + workers * (16 + 8 + 4 + 4) + starts * 8 + 8;
        let rest = of_lengths + of_tiles + lists.merges * 4 * (lists.levels + 2);
        let [decodes, items] = [0, 1].map(|part| lists.parts.get(part).map_or(0, |part| part.items) * 8);
        PlannerScratch { order: decodes.max(items + SORT_BYTES), rest: rest.next_multiple_of(8), found: 0 }
    }

    /// Bytes of the workspace behind the status: for this memory or, of a capacity with levels, the larger of both
    /// memories, and behind it for `CascadePlanParams::group_pages`.
    pub fn workspace_bytes(lists: &PlanCapacity, rule: &ListRule) -> [usize; 2] {
        let flat = Self::of(lists, rule).shared_and_workspace().1;
        match rule {
            ListRule::Mixed(rule) if lists.levels > 1 => {
                let both = flat.max(Self::of_cascade(lists, rule).shared_and_workspace().1);
                [both.next_multiple_of(8), lists.levels * lists.requests * 4]
            }
            _ => [flat, 0],
        }
    }

    /// Bytes in shared memory of the CTA that plans, and in the workspace behind the status. What does not fit shared
    /// memory as a whole has its order of items there, if that fits.
    pub fn shared_and_workspace(self) -> (usize, usize) {
        let PlannerScratch { order, rest, found } = self;
        match (order + rest <= PLAN_SHARED_BYTES, order <= PLAN_SHARED_BYTES) {
            (true, _) => (order + rest, found),
            (false, true) => (order, rest + found),
            (false, false) => (0, rest + order + found),
        }
    }

    /// `PlanParams::scratch`, `PlanParams::order` and `PlanParams::found`, where memory of the workspace begins at an
    /// address.
    pub fn addresses(self, workspace: u64) -> [u64; 3] {
        let (shared, of_workspace) = self.shared_and_workspace();
        let found = if self.found > 0 { workspace + (of_workspace - self.found) as u64 } else { 0 };
        match (shared, of_workspace - self.found) {
            (_, 0) => [0, 0, found],
            (0, _) if self.order > 0 => [workspace, workspace + self.rest as u64, found],
            _ => [workspace, 0, found],
        }
    }

    /// The CTAs that may find tiles for the one that plans, where there are enough.
    pub fn tile_ctas(self) -> usize {
        /// One in each warp.
        const TILES: usize = 16;
        (self.found / TILE_BYTES).div_ceil(TILES)
    }
}
