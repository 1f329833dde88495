//! The capacity of a plan: sizes of memory that holds the work list of every batch up to a limit.

use super::error::count_i32;
use super::rule::MaxWork;
use super::{ListRule, MERGE_ROWS, MixedRule, PlanError, PlanRule, Schedule, WorkList};
use crate::batch::{BatchCapacity, Layout, greatest_common_divisor};
use crate::expr::{KvLists, Variant};
use crate::spec::Heads;

/// The most that a batch and its work list may have. Memory of this size keeps its addresses for every such batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanCapacity {
    /// Requests.
    pub requests: usize,
    /// Levels; 1 admits only batches without levels.
    pub levels: usize,
    /// Query tokens, each of which has an entry for its request; 0 with one level.
    pub queries: usize,
    /// Segments of keys of a mixed list, without levels one for each request; 0 for a flat list.
    pub segments: usize,
    /// Entries of the page table; `None` for ragged keys.
    pub pages: Option<usize>,
    /// Each part of the list.
    pub parts: Vec<PartCapacity>,
    /// Merges.
    pub merges: usize,
    /// States of all merges of a mixed list; 0 for a flat list.
    pub merge_parts: usize,
    /// Rows of partial states.
    pub partial_rows: usize,
}

/// The most that a part of a list may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCapacity {
    /// Work items.
    pub items: usize,
    /// Workers; 0 if each item has one of its own.
    pub workers: usize,
}

impl PlanCapacity {
    /// The capacity for every batch within `capacity`. A mixed list is bounded whatever its mix of decode and prefill
    /// and, with several levels, whichever keys its requests share.
    ///
    /// Under [`Schedule::FixedSplit`] a tile's list of keys (`kv_list_len`) is assumed to be no longer than its
    /// request. A list that names keys more than once may be longer: [`PlanCapacity::check`] tells whether it fits.
    ///
    /// # Errors
    ///
    /// A count that exceeds `i32`; a rule with a count of 0.
    pub fn of(capacity: &BatchCapacity, variant: &Variant, heads: Heads, rule: &ListRule) -> Result<Self, PlanError> {
        let group = heads.group();
        rule.check(group)?;
        let (requests, levels) = (capacity.requests as usize, capacity.levels.max(1) as usize);
        let (list, queries, segments) = match rule {
            ListRule::Flat(rule) => (Self::flat(capacity, variant, group, rule)?, 0, 0),
            ListRule::Mixed(rule) if levels > 1 => {
                // without levels a request is a segment, even a request without keys
                let segments = count("segments of keys", capacity.segments())?.max(requests);
                (Self::with_levels(capacity, group, rule)?, capacity.qo_tokens as usize, segments)
            }
            ListRule::Mixed(rule) => (Self::without_levels(capacity, group, rule)?, 0, requests),
        };
        let pages = capacity.pages.map(|_| count("pages", capacity.page_entries())).transpose()?;
        Ok(PlanCapacity { requests, levels, queries, segments, pages, ..list })
    }

    /// Checks that a batch and its list fit.
    ///
    /// # Errors
    ///
    /// [`PlanError::Capacity`] names the count that exceeds the capacity; [`PlanError::Levels`] is for a cascade under
    /// a capacity of one level.
    pub fn check(&self, layout: &Layout, work: &WorkList) -> Result<(), PlanError> {
        if layout.has_levels() && self.levels <= 1 {
            return Err(PlanError::Levels { what: "a plan with a capacity of one level" });
        }
        let fits = |what, count: usize, capacity: usize| {
            if count <= capacity { Ok(()) } else { Err(PlanError::Capacity { what, count, capacity }) }
        };
        fits("requests", layout.batch(), self.requests)?;
        fits("levels", layout.level_count(), self.levels)?;
        fits("queries", if self.queries > 0 { layout.qo_tokens() } else { 0 }, self.queries)?;
        fits("segments of keys", layout.segments().len(), self.segments)?;
        fits("pages", layout.pages().map_or(0, |pages| pages.indices().len()), self.pages.unwrap_or(0))?;
        fits("parts", work.parts.len(), self.parts.len())?;
        for (part, capacity) in work.parts.iter().zip(&self.parts) {
            fits("work items", part.items.len(), capacity.items)?;
            fits("workers", part.workers.len().saturating_sub(1), capacity.workers)?;
        }
        fits("merges", work.merges.len(), self.merges)?;
        fits("parts of merges", work.merge_parts.len(), self.merge_parts)?;
        fits("rows of partial states", work.partial_rows as usize, self.partial_rows)
    }

    /// The bounds of a list, without those of its batch.
    fn of_list(parts: Vec<PartCapacity>, merges: u64, merge_parts: u64, partial_rows: u64) -> Result<Self, PlanError> {
        let (merges, merge_parts) = (count("merges", merges)?, count("parts of merges", merge_parts)?);
        let partial_rows = count("rows of partial states", partial_rows)?;
        Ok(PlanCapacity { parts, merges, merge_parts, partial_rows, ..Self::default() })
    }

    /// One part for each branch of a union. Every tile of a union is merged.
    fn flat(capacity: &BatchCapacity, variant: &Variant, group: u32, rule: &PlanRule) -> Result<Self, PlanError> {
        let run = KvLists::of(variant).map(|lists| lists.queries);
        let tiles = capacity.tiles(group, rule.tile_rows, run);
        let of_part = rule.max_work(tiles, capacity.blocks(group, rule.tile_rows, run, rule.kv_align));
        let branches = if variant.has_union() { variant.branches().len() } else { 1 };
        let items = of_part.items.saturating_mul(branches as u64);
        count("work items", items)?;
        let (merges, states) = if branches > 1 { (tiles, items) } else { (of_part.merges, of_part.states) };
        let parts = vec![PartCapacity::new(rule, of_part.items, of_part.workers)?; branches];
        Self::of_list(parts, merges, 0, states.saturating_mul(rule.tile_rows.into()))
    }

    /// Without levels a tile has rows of one request, so that only split tiles are merged.
    fn without_levels(capacity: &BatchCapacity, group: u32, rule: &MixedRule) -> Result<Self, PlanError> {
        let MixedRule { decode, prefill, .. } = rule;
        // a request of the decode part is one tile
        let decode_max = decode.max_work(
            requests_with_queries(capacity),
            capacity.blocks(u32::from(group > 0), u32::MAX, None, decode.kv_align),
        );
        let prefill_max = if longest(capacity, group) > decode.tile_rows.into() {
            let tiles = capacity.tiles(group, prefill.tile_rows, None);
            prefill.max_work(tiles, capacity.blocks(group, prefill.tile_rows, None, prefill.kv_align))
        } else {
            MaxWork::default()
        };
        let both = |of: fn(&MaxWork) -> u64, each: fn(u32) -> u64| {
            let [decode, prefill] =
                [(&decode_max, decode), (&prefill_max, prefill)].map(|(part, rule)| (of(part), each(rule.tile_rows)));
            decode.0.saturating_mul(decode.1).saturating_add(prefill.0.saturating_mul(prefill.1))
        };
        let units = |rows: u32| rows.div_ceil(MERGE_ROWS).into();
        let parts = vec![
            PartCapacity::new(decode, decode_max.items, decode_max.workers)?,
            PartCapacity::new(prefill, prefill_max.items, prefill_max.workers)?,
        ];
        let [merges, states] = [|part: &MaxWork| part.merges, |part: &MaxWork| part.states].map(|of| both(of, units));
        Self::of_list(parts, merges, states, both(|part| part.states, u64::from))
    }

    /// With levels a row is in at most one tile of each level. In each level
    ///
    /// - a tile of the decode part has all rows of its requests, so that each of them is in no other tile;
    /// - tiles of the prefill part belong to groups with more rows than a decode tile: one request, or several that
    ///   share keys.
    ///
    /// All units of rows may be merged, each from one state of every level and one more for each cut of a tile that
    /// contains it.
    fn with_levels(capacity: &BatchCapacity, group: u32, rule: &MixedRule) -> Result<Self, PlanError> {
        let MixedRule { decode, prefill, .. } = rule;
        let levels = u64::from(capacity.levels);
        let [decode_rows, prefill_rows] = [decode, prefill].map(|rule| u64::from(rule.tile_rows));
        let rows = u64::from(capacity.qo_tokens).saturating_mul(group.into());
        let unit_rows = UnitRows::new(capacity, group, prefill.tile_rows);
        let units = capacity.tiles(group, unit_rows.whole, None);

        let decode_tiles = levels.saturating_mul(requests_with_queries(capacity));
        let blocks = capacity.blocks_of_segments(requests_with_queries(capacity), decode.kv_align);
        let decode_cuts = u64::from(decode.workers).saturating_sub(1).min(blocks);

        // if no single request has more rows than a decode tile, a group has at least two requests
        let alone = longest(capacity, group) > decode_rows;
        let parts = (requests_with_queries(capacity) / if alone { 1 } else { 2 }).min(rows / (decode_rows + 1));
        // the least number of rows of a tile that is not the last of its group
        let least = (prefill_rows - unit_rows.most + 1).next_multiple_of(unit_rows.multiple).min(prefill_rows);
        let of_level = if parts == 0 { 0 } else { (rows + parts * (least - 1)) / least };
        let prefill_tiles = levels.saturating_mul(of_level);
        // tiles are split only if there are fewer tiles than workers, and into no more splits than workers
        let workers = if prefill_tiles == 0 { 0 } else { u64::from(prefill.workers) };
        let prefill_cuts = workers.saturating_sub(1);

        let cut = |decode: u64, prefill: u64| {
            decode_cuts.saturating_mul(decode).saturating_add(prefill_cuts.saturating_mul(prefill))
        };
        let [decode_rows, prefill_rows] = [decode_rows, prefill_rows].map(|of_tile| of_tile.min(rows));
        let parts = vec![
            PartCapacity::new(decode, decode_tiles.saturating_add(decode_cuts), decode.workers.into())?,
            PartCapacity::new(prefill, prefill_tiles.max(workers), 0)?,
        ];
        let units_cut = cut(decode_rows / unit_rows.multiple, prefill_rows / unit_rows.multiple);
        let merge_parts = levels.saturating_mul(units).saturating_add(units_cut);
        Self::of_list(
            parts,
            units,
            merge_parts,
            levels.saturating_mul(rows).saturating_add(cut(decode_rows, prefill_rows)),
        )
    }
}

/// Bounds on the number of rows of a merge unit.
struct UnitRows {
    /// Rows per unit for an upper bound on the units of a request: at most `rows.div_ceil(whole)`.
    whole: u32,
    /// Greatest number of rows.
    most: u64,
    /// A common divisor of all numbers of rows, so also the least number.
    multiple: u64,
}

impl UnitRows {
    fn new(capacity: &BatchCapacity, group: u32, prefill_rows: u32) -> Self {
        // rows are cut into tiles first, and tiles into units
        let whole = prefill_rows / prefill_rows.div_ceil(MERGE_ROWS);
        let longest = longest(capacity, group);
        let is_unit = longest <= whole.into(); // a request is
        let multiple = [group, prefill_rows].into_iter().fold(MERGE_ROWS, greatest_common_divisor);
        UnitRows {
            whole,
            most: u64::from(MERGE_ROWS.min(prefill_rows)).min(longest.max(1)),
            multiple: if is_unit { group } else { multiple }.into(),
        }
    }
}

impl PartCapacity {
    fn new(rule: &PlanRule, items: u64, workers: u64) -> Result<Self, PlanError> {
        let workers = if rule.schedule == Schedule::LongestFirst { 0 } else { workers };
        Ok(PartCapacity { items: count("work items", items)?, workers: count("workers", workers)? })
    }
}

fn count(what: &'static str, value: u64) -> Result<usize, PlanError> {
    Ok(count_i32(what, value)? as usize)
}

/// Greatest number of requests that have queries.
fn requests_with_queries(capacity: &BatchCapacity) -> u64 {
    capacity.requests.min(capacity.qo_tokens).into()
}

/// PackGQA rows of the longest request.
fn longest(capacity: &BatchCapacity, group: u32) -> u64 {
    u64::from(capacity.qo_len.min(capacity.qo_tokens)).saturating_mul(group.into())
}
