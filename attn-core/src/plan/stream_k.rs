//! Stream-K: the tiles of a batch, laid end to end by cost, are cut into spans of equal cost, one for each worker.
//!
//! Tile `t` costs `item + blocks(t) * block`; `ends[t]` is the prefix sum of these costs up to and including tile `t`,
//! and `total` their sum. Worker `w` begins at cost
//!
//! ```text
//! at(w) = item + floor(w * (total - item) / workers)         0 < w < workers
//! ```
//!
//! Worker 0 begins at the first tile, and the last worker ends after the last. A worker that begins within a tile
//! starts an item of its own, whose overhead `item` is not in the prefix sums. One overhead is therefore subtracted
//! before the division, which makes the splits of a single tile equal. `at(w)` falls into the tile `t` with `ends[t -
//! 1] <= at(w) < ends[t]`, and there into block
//!
//! ```text
//! (at(w) - ends[t - 1] - item) / block, rounded down to a multiple of `step`, and to 0 if it is below `min_blocks`
//! ```
//!
//! or 0 within the overhead of the item. `step` is 1 if every share has at least `min_blocks` blocks, since no two cuts
//! are closer than that. Otherwise it is `min_blocks`, and workers whose cuts coincide have no work. These bounds
//! follow:
//!
//! - A worker costs at most `ceil(total / workers) + item + min_blocks * block`.
//! - A worker has items of at most two split tiles: the one in which it begins and the one in which it ends. So it
//!   writes at most two partial states.
//! - Items, slots and merges follow from counting. Let `inside(w)` be the number of cuts up to `w` that are within a
//!   tile, and `cut(w)` the number of tiles that they cut. Worker `w` begins with item `tile(w) + inside(w)`. The item
//!   behind a cut within a tile has slot `inside(w) + cut(w) - 1` and merge `cut(w) - 1` (without a union).
//!
//! **Number of workers.** It is at most [`PlanRule::workers`]. If there are fewer tiles than workers, a further worker
//! is used under two conditions: shares stay at least `min_blocks` blocks long, and the estimated time `share + merge *
//! splits of the longest tile` gets shorter. That estimate is least at `(total - item) / isqrt(merge * longest)`
//! workers.
//!
//! **Whole tiles.** If tiles are about equally long, a schedule without splits is as fast and needs no merge. It is
//! used if `tiles_per_worker = ceil(tiles / workers)` tiles of the greatest length cost at most a share, an item and a
//! block. Then `ceil(tiles / tiles_per_worker)` workers run whole tiles, worker `w` from tile `floor(w * tiles /
//! workers)`.
//!
//! All arithmetic is in unsigned 64-bit integers, so that the planner kernel (attn-kernels/cuda/planner/stream_k.cuh)
//! computes the same.

use super::{Cost, PlanError, PlanRule};

/// Where a worker begins: a tile and a block, counted from the first visible block of the tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) tile: u32,
    pub(super) block: u32,
}

/// The tiles of one branch and the rule that cuts them.
pub(super) struct StreamK<'a> {
    /// Prefix sums of tile costs: tile `t` covers costs `ends[t - 1]..ends[t]`.
    ends: &'a [u64],
    cost: Cost,
    /// Cost that is divided among the workers: the total without one item's overhead.
    shared_cost: u64,
    workers: u64,
    min_blocks: u64,
    block_step: u64,
    /// Whether workers run whole tiles.
    whole_tiles: bool,
}

/// The error for a total cost that does not fit 64 bits.
pub(super) const COST_OVERFLOW: PlanError = PlanError::TooMany { what: "units of cost", value: u64::MAX };

/// Writes the prefix sums of tile costs. `tiles` has the items of each tile (0 or 1) and their blocks.
pub(super) fn tile_ends(
    ends: &mut Vec<u64>,
    cost: Cost,
    tiles: impl Iterator<Item = (u32, u32)>,
) -> Result<(), PlanError> {
    ends.clear();
    let mut end = 0u64;
    for (items, blocks) in tiles {
        // fewer than 2^31 blocks: the cost of one tile does not overflow
        let cost = u64::from(items) * u64::from(cost.item) + u64::from(blocks) * u64::from(cost.block);
        end = end.checked_add(cost).ok_or(COST_OVERFLOW)?;
        ends.push(end);
    }
    Ok(())
}

impl<'a> StreamK<'a> {
    /// `tiles` is the number of tiles that the branch runs, `longest` the blocks of the longest.
    pub(super) fn new(ends: &'a [u64], rule: &PlanRule, tiles: u64, longest: u64) -> Self {
        let cost = rule.cost;
        let total = ends.last().copied().unwrap_or(0);
        let shared_cost = total.saturating_sub(cost.item.into());
        let min_blocks = rule.min_split_blocks();
        let min_split_cost = min_blocks * u64::from(cost.block);
        let best_split_cost = (longest * u64::from(cost.block)).saturating_mul(cost.merge.into()).isqrt();
        let useful_workers =
            (shared_cost / min_split_cost).min(shared_cost.checked_div(best_split_cost).unwrap_or(u64::MAX));
        let workers = useful_workers.max(tiles).clamp(1, rule.workers.into());
        let block_step = if shared_cost / workers >= min_split_cost { 1 } else { min_blocks };
        let [item_cost, block_cost] = [cost.item, cost.block].map(u64::from);
        let tiles_per_worker = tiles.div_ceil(workers);
        let whole_tiles = tiles == ends.len() as u64
            && tiles_per_worker.saturating_mul(item_cost + longest * block_cost)
                <= (shared_cost / workers).saturating_add(item_cost + block_cost);
        let workers = if whole_tiles { tiles.div_ceil(tiles_per_worker.max(1)).max(1) } else { workers };
        StreamK { ends, cost, shared_cost, workers, min_blocks, block_step, whole_tiles }
    }

    pub(super) fn workers(&self) -> u64 {
        self.workers
    }

    /// Where a worker begins; for the number of workers, where the last one ends.
    pub(super) fn cut(&self, worker: u64) -> Cut {
        if worker == 0 {
            return Cut::default();
        }
        let end = Cut { tile: self.ends.len() as u32, block: 0 };
        if worker >= self.workers {
            return end;
        }
        if self.whole_tiles {
            return Cut { tile: share(self.ends.len() as u64, worker, self.workers) as u32, block: 0 };
        }
        let item_cost = u64::from(self.cost.item);
        let at = item_cost + share(self.shared_cost, worker, self.workers);
        let tile = self.ends.partition_point(|&end| end <= at);
        if tile == self.ends.len() {
            return end;
        }
        let begin = tile.checked_sub(1).map_or(0, |before| self.ends[before]);
        let block = (at - begin).saturating_sub(item_cost) / u64::from(self.cost.block);
        let block = if block < self.min_blocks { 0 } else { block - block % self.block_step };
        Cut { tile: tile as u32, block: block as u32 }
    }
}

/// `floor(n * total / of)` for `n <= of < 2^32`, without overflow.
pub(super) fn share(total: u64, n: u64, of: u64) -> u64 {
    n * (total / of) + n * (total % of) / of
}
