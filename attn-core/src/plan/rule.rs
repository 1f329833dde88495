//! Rules of the planner: how a batch is cut into work, and what work costs.

use super::PlanError;

/// How a batch is cut into work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRule {
    /// PackGQA rows of a Q tile; at least 1.
    pub tile_rows: u32,
    /// Keys per block; at least 1. KV splits begin and end at multiples of this (or at the last key).
    pub kv_align: u32,
    /// Least number of keys of a KV split, except for the last of a tile.
    pub min_span: u32,
    /// Workers per KV head, at least 1: as many as the device runs at a time. 1 under [`Schedule::LongestFirst`] means
    /// that no tile is split.
    pub workers: u32,
    /// Costs of the parts of the work.
    pub cost: Cost,
    /// How tiles are split and assigned to workers.
    pub schedule: Schedule,
}

/// Costs of the parts of a worker's work, in whole units of one kind (nanoseconds, for instance).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Overhead of one item: prologue and epilogue.
    pub item: u32,
    /// One block of `kv_align` keys of a tile; at least 1.
    pub block: u32,
    /// One more partial state to merge.
    pub merge: u32,
}

impl Cost {
    /// Counts blocks alone: no overhead for items and merges.
    pub const BLOCKS: Cost = Cost { item: 0, block: 1, merge: 0 };
}

/// How tiles are split along their keys, and how items are assigned to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Stream-K: the tiles of a batch, laid end to end, are cut into spans of equal cost, one for each worker. A worker
    /// writes at most two partial states (more if branches of a union share tiles). Fewer workers are used if splits
    /// would be shorter than [`PlanRule::min_span`], or if merging more states takes longer than shorter splits save.
    /// For decode.
    StreamK,
    /// One item per worker, longest first. Keys are split, into equal splits, only if there are fewer tiles than
    /// workers. For prefill.
    LongestFirst,
    /// Splits at every multiple of a fixed number of keys of the request (rounded up to whole blocks; at least 1), and
    /// nowhere else. The splits depend on the request alone, so that a request gives the same bits alone and in any
    /// batch. Items are assigned to workers in order, at about equal cost.
    FixedSplit {
        /// Keys per split.
        keys: u32,
    },
}

/// Upper bounds of a work list, for memory that holds the list of every batch up to some size, under a variant without
/// a union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCapacity {
    /// Work items.
    pub items: u64,
    /// Workers.
    pub workers: u64,
    /// Merges.
    pub merges: u64,
    /// Slots of partial states.
    pub slots: u64,
}

impl PlanRule {
    /// Upper bounds of a list of up to `tiles` Q tiles, which see up to `blocks` blocks of [`PlanRule::kv_align`] keys
    /// in total.
    #[must_use]
    pub fn capacity(&self, tiles: u64, blocks: u64) -> WorkCapacity {
        let workers = u64::from(self.workers);
        match self.schedule {
            Schedule::StreamK => {
                let cuts = workers.saturating_sub(1).min(blocks);
                WorkCapacity { items: tiles + cuts, workers, merges: cuts.min(tiles), slots: cuts + cuts.min(tiles) }
            }
            Schedule::LongestFirst => {
                let items = tiles.max(workers);
                WorkCapacity { items, workers: items, merges: tiles.min(workers / 2), slots: workers }
            }
            Schedule::FixedSplit { keys } => {
                // a range that begins between two cuts meets one cut more
                let step = u64::from(keys.div_ceil(self.kv_align.max(1)).max(1));
                let items = tiles + blocks.min(blocks / step + tiles);
                WorkCapacity { items, workers: items.min(workers).max(1), merges: tiles, slots: items }
            }
        }
    }

    /// Checks that every count is at least 1.
    pub(super) fn check(&self, group: u32) -> Result<(), PlanError> {
        let keys = match self.schedule {
            Schedule::FixedSplit { keys } => keys,
            Schedule::StreamK | Schedule::LongestFirst => 1,
        };
        let least = [
            ("tile_rows", self.tile_rows),
            ("kv_align", self.kv_align),
            ("workers", self.workers),
            ("cost.block", self.cost.block),
            ("schedule.keys", keys),
            ("group", group),
        ];
        match least.into_iter().find(|(_, value)| *value == 0) {
            Some((what, _)) => Err(PlanError::Zero { what }),
            None => Ok(()),
        }
    }

    /// Least number of blocks of a KV split, except for the last of a tile; at least 1.
    #[must_use]
    pub fn min_split_blocks(&self) -> u64 {
        u64::from(self.min_span.div_ceil(self.kv_align).max(1))
    }
}
