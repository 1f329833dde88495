//! The capacity of a mixed plan: sizes of memory that holds the mixed list of every batch up to a limit.

use super::{MERGE_ROWS, MixedList, MixedRule};
use crate::{
    batch::{BatchCapacity, Layout},
    plan::{PlanError, WorkCapacity, count::count_i32},
    spec::Heads,
};

/// The most that a batch and its mixed list may have. Memory of this size keeps its addresses for every such batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedCapacity {
    /// Requests.
    pub requests: usize,
    /// Levels; 1 admits only batches without levels.
    pub levels: usize,
    /// Query tokens, each of which has an entry for its request; 0 with one level.
    pub queries: usize,
    /// Segments of keys; without levels one for each request.
    pub segments: usize,
    /// Entries of the page table; `None` for ragged keys.
    pub pages: Option<usize>,
    /// Items of the decode part.
    pub decode: usize,
    /// Workers of the decode part.
    pub workers: usize,
    /// Items of the prefill part.
    pub prefill: usize,
    /// Merges.
    pub merges: usize,
    /// Parts of all merges.
    pub merge_parts: usize,
    /// Rows of partial states.
    pub partial_rows: usize,
}

/// Upper bounds of a mixed list.
struct MaxCounts {
    decode: WorkCapacity,
    prefill: WorkCapacity,
    merges: u64,
    merge_parts: u64,
    partial_rows: u64,
}

/// No work.
const EMPTY: WorkCapacity = WorkCapacity { items: 0, workers: 0, merges: 0, slots: 0 };

impl MixedCapacity {
    /// The capacity for every batch within `capacity`, whatever its mix of decode and prefill and, with several levels,
    /// whichever keys its requests share.
    ///
    /// # Errors
    ///
    /// A count that exceeds `i32`; a rule with a count of 0.
    pub fn of(capacity: &BatchCapacity, heads: Heads, rule: &MixedRule) -> Result<Self, PlanError> {
        rule.check(heads.group())?;
        let count = |what, value: u64| Ok::<_, PlanError>(count_i32(what, value)? as usize);
        let (requests, levels) = (capacity.requests as usize, capacity.levels.max(1) as usize);
        let (most, queries, segments) = if levels > 1 {
            // without levels a request is a segment, even a request without keys
            let segments = count("segments of keys", capacity.segments())?.max(requests);
            (MaxCounts::with_levels(capacity, heads.group(), rule), capacity.qo_tokens as usize, segments)
        } else {
            (MaxCounts::without_levels(capacity, heads.group(), rule), 0, requests)
        };
        Ok(MixedCapacity {
            requests,
            levels,
            queries,
            segments,
            pages: capacity.pages.map(|_| count("pages", capacity.page_entries())).transpose()?,
            decode: count("work items", most.decode.items)?,
            workers: count("workers", most.decode.workers)?,
            prefill: count("work items", most.prefill.items)?,
            merges: count("merges", most.merges)?,
            merge_parts: count("parts of merges", most.merge_parts)?,
            partial_rows: count("rows of partial states", most.partial_rows)?,
        })
    }

    /// Checks that a batch and its list fit.
    ///
    /// # Errors
    ///
    /// [`PlanError::Capacity`] names the count that exceeds the capacity; [`PlanError::Levels`] is for a cascade under
    /// a capacity of one level.
    pub fn check(&self, layout: &Layout, work: &MixedList) -> Result<(), PlanError> {
        if layout.has_levels() && self.levels <= 1 {
            return Err(PlanError::Levels { what: "a plan with a capacity of one level" });
        }
        let segments = if layout.has_levels() { layout.segments().len() } else { layout.batch() };
        let queries = if self.levels > 1 { layout.qo_tokens() } else { 0 };
        let counts = [
            ("requests", layout.batch(), self.requests),
            ("levels", layout.level_count(), self.levels),
            ("queries", queries, self.queries),
            ("segments of keys", segments, self.segments),
            ("pages", layout.pages().map_or(0, |pages| pages.indices().len()), self.pages.unwrap_or(0)),
            ("work items of few rows", work.decode.len(), self.decode),
            ("workers", work.workers.len().saturating_sub(1), self.workers),
            ("work items of many rows", work.prefill.len(), self.prefill),
            ("merges", work.merges.len(), self.merges),
            ("parts of merges", work.merge_parts.len(), self.merge_parts),
            ("rows of partial states", work.partial_rows as usize, self.partial_rows),
        ];
        match counts.into_iter().find(|(_, count, capacity)| count > capacity) {
            Some((what, count, capacity)) => Err(PlanError::Capacity { what, count, capacity }),
            None => Ok(()),
        }
    }
}

impl MaxCounts {
    /// Without levels a tile has rows of one request, so that only split tiles are merged.
    fn without_levels(capacity: &BatchCapacity, group: u32, rule: &MixedRule) -> Self {
        let MixedRule { decode, prefill, .. } = rule;
        // a request of the decode part is one tile
        let decode_max = decode.capacity(
            requests_with_queries(capacity),
            capacity.blocks(u32::from(group > 0), u32::MAX, None, decode.kv_align),
        );
        let prefill_max = if longest(capacity, group) > decode.tile_rows.into() {
            let tiles = capacity.tiles(group, prefill.tile_rows, None);
            prefill.capacity(tiles, capacity.blocks(group, prefill.tile_rows, None, prefill.kv_align))
        } else {
            EMPTY
        };
        let both = |of: fn(&WorkCapacity) -> u64, each: fn(u32) -> u64| {
            let [decode, prefill] =
                [(&decode_max, decode), (&prefill_max, prefill)].map(|(part, rule)| (of(part), each(rule.tile_rows)));
            decode.0.saturating_mul(decode.1).saturating_add(prefill.0.saturating_mul(prefill.1))
        };
        let units = |rows: u32| rows.div_ceil(MERGE_ROWS).into();
        MaxCounts {
            merges: both(|part| part.merges, units),
            merge_parts: both(|part| part.slots, units),
            partial_rows: both(|part| part.slots, u64::from),
            decode: decode_max,
            prefill: prefill_max,
        }
    }

    /// With levels a row is in at most one tile of each level. In each level
    ///
    /// - a tile of the decode part has all rows of its requests, so that each of them is in no other tile;
    /// - tiles of the prefill part belong to groups with more rows than a decode tile: one request, or several that
    ///   share keys.
    ///
    /// All units of rows may be merged, each from one state of every level and one more for each cut of a tile that
    /// contains it.
    fn with_levels(capacity: &BatchCapacity, group: u32, rule: &MixedRule) -> Self {
        let MixedRule { decode, prefill, .. } = rule;
        let levels = u64::from(capacity.levels);
        let [decode_rows, prefill_rows] = [decode, prefill].map(|rule| u64::from(rule.tile_rows));
        let rows = u64::from(capacity.qo_tokens).saturating_mul(group.into());
        let unit_rows = UnitRows::new(capacity, group, prefill_rows);
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
        MaxCounts {
            decode: WorkCapacity {
                items: decode_tiles.saturating_add(decode_cuts),
                workers: decode.workers.into(),
                ..EMPTY
            },
            prefill: WorkCapacity { items: prefill_tiles.max(workers), workers: prefill_tiles.max(workers), ..EMPTY },
            merges: units,
            merge_parts: levels
                .saturating_mul(units)
                .saturating_add(cut(decode_rows / unit_rows.least, prefill_rows / unit_rows.least)),
            partial_rows: levels.saturating_mul(rows).saturating_add(cut(decode_rows, prefill_rows)),
        }
    }
}

/// Bounds on the number of rows of a merge unit.
struct UnitRows {
    /// Rows per unit for an upper bound on the units of a request: at most `rows.div_ceil(whole)`.
    whole: u32,
    /// Least number of rows.
    least: u64,
    /// Greatest number of rows.
    most: u64,
    /// A common divisor of all numbers of rows.
    multiple: u64,
}

impl UnitRows {
    fn new(capacity: &BatchCapacity, group: u32, prefill_rows: u64) -> Self {
        let merge_rows = u64::from(MERGE_ROWS);
        // rows are cut into tiles first, and tiles into units
        let whole = prefill_rows / prefill_rows.div_ceil(merge_rows);
        let longest = longest(capacity, group);
        let multiple = if longest <= whole {
            u64::from(group) // a request is a unit
        } else {
            [u64::from(group), prefill_rows].into_iter().fold(merge_rows, greatest_common_divisor)
        };
        UnitRows {
            whole: whole as u32,
            least: multiple,
            most: merge_rows.min(prefill_rows).min(longest.max(1)),
            multiple,
        }
    }
}

/// Greatest number of requests that have queries.
fn requests_with_queries(capacity: &BatchCapacity) -> u64 {
    capacity.requests.min(capacity.qo_tokens).into()
}

/// PackGQA rows of the longest request.
fn longest(capacity: &BatchCapacity, group: u32) -> u64 {
    u64::from(capacity.qo_len.min(capacity.qo_tokens)).saturating_mul(group.into())
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
