//! Rules of the planner: how a batch is cut into work, and what work costs.

use super::PlanError;

/// How a batch is cut into the parts of a work list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListRule {
    /// A flat list: one rule cuts all requests.
    Flat(PlanRule),
    /// A mixed list: one launch runs decode and prefill, and requests may share keys.
    Mixed(MixedRule),
}

/// How a mixed list is cut. Requests with at most as many rows as a decode tile are the decode part, all others the
/// prefill part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedRule {
    /// Rule of the decode part. Its `workers` are those of the whole device; the decode part gets a share of them.
    pub decode: PlanRule,
    /// Rule of the prefill part, with the same meaning of workers. Both rules count costs in the same unit.
    pub prefill: PlanRule,
    /// Workers of the decode part while prefill items fill the device: one on each of its multiprocessors; no more than
    /// all workers.
    pub co_run_workers: u32,
    /// Whether a decode worker has a multiprocessor of its own, which joins the prefill part afterwards. The decode
    /// part then gets as many as end before the prefill part does, and no more than saturate the memory.
    pub own_sms: bool,
    /// Policy and costs of cascades.
    pub cascade: CascadeCosts,
}

/// When requests that share keys run in shared tiles. Costs are in the units of [`Cost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CascadeCosts {
    /// Whether the costs decide.
    pub policy: CascadePolicy,
    /// Cost of writing and merging one more partial state of up to [`MERGE_ROWS`](super::MERGE_ROWS) rows.
    pub state: u32,
    /// Cost of one block of a decode tile if another tile has just brought its keys into the L2 cache; at most
    /// `decode.cost.block`.
    pub cached_block: u32,
    /// Cost of launching the merge kernel; all workers of the device are idle meanwhile.
    pub merge_launch: u32,
    /// Slowdown of the decode part in a mixed launch relative to a decode launch, in units of 1/1024 of the cost of its
    /// keys; 0 if the batch needs a mixed launch anyway.
    pub decode_penalty: u32,
}

/// Whether requests that share keys run in shared tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CascadePolicy {
    /// They do where that costs less than reading the keys once per request.
    #[default]
    Auto,
    /// They do wherever several requests share keys.
    Always,
    /// They never do: every request reads its keys itself.
    Never,
}

/// How the tiles of one part are cut into work.
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
    /// One item per worker, longest first (of a mixed list without levels, by request). Keys are split, into equal
    /// splits, only if there are fewer tiles than workers. For prefill.
    LongestFirst,
    /// Splits at every multiple of a fixed number of keys of the request (rounded up to whole blocks; at least 1), and
    /// nowhere else. The splits depend on the request alone, so that a request gives the same bits alone and in any
    /// batch. Items are assigned to workers in order, at about equal cost.
    FixedSplit {
        /// Keys per split.
        keys: u32,
    },
}

/// Upper bounds of a part of a list, without a union.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxWork {
    pub(super) items: u64,
    pub(super) workers: u64,
    pub(super) merges: u64,
    /// Partial states of tiles.
    pub(super) states: u64,
}

/// Index of the decode part in a mixed list.
pub(super) const DECODE: u32 = 0;
/// Index of the prefill part in a mixed list.
pub(super) const PREFILL: u32 = 1;

impl From<PlanRule> for ListRule {
    fn from(rule: PlanRule) -> Self {
        ListRule::Flat(rule)
    }
}

impl From<MixedRule> for ListRule {
    fn from(rule: MixedRule) -> Self {
        ListRule::Mixed(rule)
    }
}

impl ListRule {
    /// The rule of a part.
    pub(super) fn of_part(&self, part: u32) -> &PlanRule {
        match self {
            ListRule::Flat(rule) => rule,
            ListRule::Mixed(rule) => rule.of_part(part),
        }
    }

    /// Checks that every count is at least 1.
    pub(super) fn check(&self, group: u32) -> Result<(), PlanError> {
        [DECODE, PREFILL].iter().try_for_each(|part| self.of_part(*part).check(group))
    }
}

impl MixedRule {
    /// The rule of a part.
    pub(super) fn of_part(&self, part: u32) -> &PlanRule {
        if part == DECODE { &self.decode } else { &self.prefill }
    }

    /// The part of a request with `packed` PackGQA rows.
    pub(super) fn part_of(&self, packed: u32) -> u32 {
        if packed <= self.decode.tile_rows { DECODE } else { PREFILL }
    }
}

impl PlanRule {
    /// Upper bounds of a list of up to `tiles` Q tiles, which see up to `blocks` blocks of [`PlanRule::kv_align`] keys
    /// in total.
    pub(super) fn max_work(&self, tiles: u64, blocks: u64) -> MaxWork {
        let workers = u64::from(self.workers);
        match self.schedule {
            Schedule::StreamK => {
                let cuts = workers.saturating_sub(1).min(blocks);
                MaxWork { items: tiles + cuts, workers, merges: cuts.min(tiles), states: cuts + cuts.min(tiles) }
            }
            Schedule::LongestFirst => {
                let items = tiles.max(workers);
                MaxWork { items, workers: items, merges: tiles.min(workers / 2), states: workers }
            }
            Schedule::FixedSplit { keys } => {
                // a range that begins between two cuts meets one cut more
                let step = u64::from(keys.div_ceil(self.kv_align.max(1)).max(1));
                let items = tiles + blocks.min(blocks / step + tiles);
                MaxWork { items, workers: items.min(workers).max(1), merges: tiles, states: items }
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
            ("fixed_split_size (schedule.keys)", keys),
            ("group", group),
        ];
        match least.into_iter().find(|(_, value)| *value == 0) {
            Some((what, _)) => Err(PlanError::Zero { what }),
            None => Ok(()),
        }
    }

    /// Least number of blocks of a KV split, except for the last of a tile; at least 1.
    pub fn min_split_blocks(&self) -> u32 {
        self.blocks_of(self.min_span)
    }

    /// Blocks of `keys` keys, at least 1 and fewer than 2^31.
    fn blocks_of(&self, keys: u32) -> u32 {
        keys.div_ceil(self.kv_align).clamp(1, i32::MAX as u32)
    }

    /// Blocks between fixed cuts of the keys, rounded up to whole blocks; 0 if the schedule has none.
    pub fn fixed_split_blocks(&self) -> u32 {
        match self.schedule {
            Schedule::FixedSplit { keys } => self.blocks_of(keys),
            Schedule::StreamK | Schedule::LongestFirst => 0,
        }
    }
}
