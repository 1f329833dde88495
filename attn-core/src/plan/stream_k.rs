//! Stream-K: the tiles of a batch, laid end to end by cost, are cut into spans of equal cost, one for each worker.
//!
//! The book has the formulas and their bounds (book/src/internals/planner.md).
//!
//! All arithmetic is in unsigned 64-bit integers, and the planner kernel has it as a header, so it computes the same.
//! By hand, there and here, is the search among the ends of tiles.

use super::{Cost, PlanError, PlanRule};
use device::{Costs, Line};

pub(crate) use device::CUDA;
pub use device::share_to_merge;

/// Where a worker begins: a tile and a block, counted from the first visible block of the tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) tile: u32,
    pub(super) block: u32,
}

/// The tiles of one branch, cut among workers.
pub(super) struct StreamK<'a> {
    /// Prefix sums of tile costs: tile `t` covers costs `ends[t - 1]..ends[t]`.
    ends: &'a [u64],
    line: Line,
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
        let total = ends.last().copied().unwrap_or(0);
        let costs = Costs {
            item: rule.cost.item.into(),
            block: rule.cost.block.into(),
            merge: rule.cost.merge.into(),
            min_blocks: rule.min_split_blocks().into(),
            max_workers: rule.workers.into(),
        };
        // whole tiles are counted, so the branch must run each
        StreamK { ends, line: device::line_of(costs, total, tiles, longest, tiles == ends.len() as u64) }
    }

    pub(super) fn workers(&self) -> u64 {
        self.line.workers
    }

    /// Where a worker begins; for the number of workers, where the last one ends.
    pub(super) fn cut(&self, worker: u64) -> Cut {
        if worker == 0 {
            return Cut::default();
        }
        let end = Cut { tile: self.ends.len() as u32, block: 0 };
        if worker >= self.line.workers {
            return end;
        }
        let at = device::position(self.line, worker);
        if self.line.whole_tiles {
            return Cut { tile: at as u32, block: 0 };
        }
        let tile = self.ends.partition_point(|&end| end <= at);
        if tile == self.ends.len() {
            return end;
        }
        let begin = tile.checked_sub(1).map_or(0, |before| self.ends[before]);
        Cut { tile: tile as u32, block: device::block_at(self.line, at, begin) as u32 }
    }
}

/// `floor(n * total / of)` for `n <= of < 2^32`, without overflow.
pub(super) fn share(total: u64, n: u64, of: u64) -> u64 {
    device::up_to(device::equal_shares(total, of), n)
}

/// Stream-K: the tiles of a batch lie on one line of costs, which is cut into equal shares, one per worker.
#[allow(unreachable_pub)] // private to the plan
#[attn_macros::device_mod(namespace = "lang::stream_k", include = "lang/int_fn.cuh")]
mod device {
    /// The rule that cuts a line.
    #[derive(Clone, Copy)]
    pub struct Costs {
        /// Of an item, of a block, and of a merge.
        pub item: u64,
        pub block: u64,
        pub merge: u64,
        /// The least blocks of a split.
        pub min_blocks: u64,
        pub max_workers: u64,
    }

    /// Equal shares of a total.
    #[derive(Clone, Copy)]
    pub struct Shares {
        pub of: u64,
        pub each: u64,
        pub rest: u64,
    }

    /// A line of tiles that is cut.
    #[derive(Clone, Copy)]
    pub struct Line {
        pub item_cost: u64,
        pub block_cost: u64,
        pub min_blocks: u64,
        /// Cuts within a tile are at multiples of it.
        pub step: u64,
        pub workers: u64,
        /// No tile is cut.
        pub whole_tiles: bool,
        /// Of the line; of the tiles, if they are whole.
        pub shares: Shares,
    }

    /// A call, so that the long code of a 64-bit division exists once.
    #[call]
    pub fn divide(a: u64, b: u64) -> u64 {
        a / b
    }

    pub fn equal_shares(total: u64, of: u64) -> Shares {
        let each = divide(total, of);
        Shares { of, each, rest: total - each * of }
    }

    /// The first n of them: floor(n * total / of) for n <= of < 2^32, without overflow.
    pub fn up_to(shares: Shares, n: u64) -> u64 {
        n * shares.each + divide(n * shares.rest, shares.of)
    }

    /// Most often there are no more tiles than workers.
    fn ceil_divide(a: u64, b: u64) -> u64 {
        if a <= b { a.min(1) } else { divide(a + b - 1, b) }
    }

    /// The share of a worker that makes the longest tile end soonest. With s splits it ends after `tile / s` and a
    /// merge of s partials, one after the other. Where that gives more than 16 splits, they merge in groups, which
    /// allows more of them: as many as for half the cost of a merge. Groups of eight allow twice as many in turn, but
    /// a tile that is alone on the device takes less than its cost.
    pub fn share_to_merge(tile: u64, merge: u64) -> u64 {
        let squared = tile.saturating_mul(merge);
        if tile > merge.saturating_mul(256) { (squared / 2).isqrt() } else { squared.isqrt() }
    }

    /// Cuts a line of tiles. `longest` is the blocks of the longest tile; `countable` says whether all of them run.
    pub fn line_of(costs: Costs, total: u64, tiles: u64, longest: u64, countable: bool) -> Line {
        let shared = total.saturating_sub(costs.item);
        let min_share = costs.min_blocks * costs.block;
        let merge_share = share_to_merge(longest * costs.block, costs.merge);
        let useful = divide(shared, min_share.max(merge_share)).max(tiles);
        let workers = useful.max(1).min(costs.max_workers);
        let of_line = equal_shares(shared, workers);
        let step = if of_line.each >= min_share { 1 } else { costs.min_blocks };
        let each = ceil_divide(tiles, workers);
        let at_most = of_line.each.saturating_add(costs.item + costs.block);
        let whole_tiles = countable && each.saturating_mul(costs.item + longest * costs.block) <= at_most;
        let of_tiles = if whole_tiles { ceil_divide(tiles, each.max(1)).max(1) } else { workers };
        let (item_cost, block_cost, min_blocks) = (costs.item, costs.block, costs.min_blocks);
        let shares = if whole_tiles { equal_shares(tiles, of_tiles) } else { of_line };
        Line { item_cost, block_cost, min_blocks, step, workers: of_tiles, whole_tiles, shares }
    }

    /// Where a worker between the first and the last begins: a position on the line, or a tile, if they are whole.
    pub fn position(line: Line, worker: u64) -> u64 {
        let at = up_to(line.shares, worker);
        if line.whole_tiles { at } else { line.item_cost + at }
    }

    /// The block at a position, in the tile that begins at `begin`.
    pub fn block_at(line: Line, at: u64, begin: u64) -> u64 {
        let block = divide((at - begin).saturating_sub(line.item_cost), line.block_cost);
        let rounded = if line.step > 1 { divide(block, line.step) * line.step } else { block };
        if rounded < line.min_blocks { 0 } else { rounded }
    }
}
