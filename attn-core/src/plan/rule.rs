//! How a batch is cut.

use super::PlanError;

/// How a batch is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRule {
    /// Packed query rows of a tile; at least 1.
    pub tile_rows: u32,
    /// Keys of a block: spans begin and end at multiples of so many (a span may end at the last key); at least 1.
    pub kv_align: u32,
    /// A cut leaves no span shorter than so many keys, except at the end of a tile's keys.
    pub min_span: u32,
    /// Workers per KV head: as many as the device holds at a time; at least 1. 1 under [`Schedule::LongestFirst`]: nothing is cut.
    pub workers: u32,
    /// What work costs.
    pub cost: Cost,
    /// Where keys are cut, and who runs what.
    pub schedule: Schedule,
}

/// What a worker's time goes into, in whole units of one kind, whichever: nanoseconds, say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Start and end of one item.
    pub piece: u32,
    /// One block of `kv_align` keys; at least 1.
    pub block: u32,
    /// One more partial state in a merge.
    pub spread: u32,
}

impl Cost {
    /// Of one who counts blocks alone.
    pub const BLOCKS: Cost = Cost { piece: 0, block: 1, spread: 0 };
}

/// Where keys are cut, and who runs what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Tiles in order on one line, which is cut into spans of equal cost, one a worker: no worker has more than two partial states, unless arms
    /// of a union share tiles. There are fewer workers where spans would be shorter than [`PlanRule::min_span`], or where merging more
    /// states takes longer than shorter spans save. For decode.
    Line,
    /// One item a worker, longest first. Keys are cut, into spans of equal length, only where there are fewer tiles than workers. For prefill.
    LongestFirst,
    /// Cuts at every multiple of so many keys of a request (rounded up to whole blocks; at least 1), and nowhere else: what is cut depends on the
    /// request alone, so that a request gives the same bits alone and in any batch. Items are dealt to workers in order, about equal
    /// costs to each.
    Fixed {
        /// Keys from cut to cut.
        keys: u32,
    },
}

/// The most that a list may have: what memory must hold for every batch up to some size, of a variant without a union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
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
    /// The most that a list of up to `tiles` query tiles has, which see up to `blocks` blocks of [`PlanRule::kv_align`] keys in all.
    #[must_use]
    pub fn capacity(&self, tiles: u64, blocks: u64) -> Capacity {
        let workers = u64::from(self.workers);
        match self.schedule {
            Schedule::Line => {
                let cuts = workers.saturating_sub(1).min(blocks);
                Capacity { items: tiles + cuts, workers, merges: cuts.min(tiles), slots: cuts + cuts.min(tiles) }
            }
            Schedule::LongestFirst => {
                let items = tiles.max(workers);
                Capacity { items, workers: items, merges: tiles.min(workers / 2), slots: workers }
            }
            Schedule::Fixed { keys } => {
                // a span that begins between two cuts meets one more of them
                let step = u64::from(keys.div_ceil(self.kv_align.max(1)).max(1));
                let items = tiles + blocks.min(blocks / step + tiles);
                Capacity { items, workers: items.min(workers).max(1), merges: tiles, slots: items }
            }
        }
    }

    /// Refuses a 0 where 1 is the least.
    pub(super) fn check(&self, group: u32) -> Result<(), PlanError> {
        let keys = match self.schedule {
            Schedule::Fixed { keys } => keys,
            Schedule::Line | Schedule::LongestFirst => 1,
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

    /// The fewest blocks that a cut leaves before it, but for the end of a tile's keys; at least 1.
    #[must_use]
    pub fn shortest(&self) -> u64 {
        u64::from(self.min_span.div_ceil(self.kv_align).max(1))
    }
}
