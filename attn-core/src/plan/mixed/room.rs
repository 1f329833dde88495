//! Room for the mixed lists of every batch up to some size.

use super::{MERGE_ROWS, MixedList, MixedRule};
use crate::{
    batch::{BatchCapacity, Layout},
    plan::{Capacity, PlanError, rows::count_i32},
    spec::Heads,
};

/// The most that a batch and its mixed list may have. Memory that is laid out for it keeps its addresses, whatever the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedRoom {
    /// Requests.
    pub requests: usize,
    /// Levels; with 1 there is room for batches without alone.
    pub levels: usize,
    /// Query tokens, whose requests are written down; 0 with one level.
    pub queries: usize,
    /// Segments of keys; without levels one a request.
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

/// The most that lists have.
struct Most {
    decode: Capacity,
    prefill: Capacity,
    merges: u64,
    merge_parts: u64,
    partial_rows: u64,
}

/// Nothing.
const NONE: Capacity = Capacity { items: 0, workers: 0, merges: 0, slots: 0 };

impl MixedRoom {
    /// Room for every batch within a capacity, whichever its mixture, and, with more levels than one, whichever keys its requests share.
    ///
    /// # Errors
    ///
    /// More of something than `i32` counts; a rule with a 0 where 1 is the least.
    pub fn of(capacity: &BatchCapacity, heads: Heads, rule: &MixedRule) -> Result<Self, PlanError> {
        rule.check(heads.group())?;
        let count = |what, value: u64| Ok::<_, PlanError>(count_i32(what, value)? as usize);
        let (requests, levels) = (capacity.requests as usize, capacity.levels.max(1) as usize);
        let (most, queries, segments) = if levels > 1 {
            // without levels a request is a segment, also one without keys
            let segments = count("segments of keys", capacity.segments())?.max(requests);
            (Most::with_levels(capacity, heads.group(), rule), capacity.qo_tokens as usize, segments)
        } else {
            (Most::without_levels(capacity, heads.group(), rule), 0, requests)
        };
        Ok(MixedRoom {
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

    /// Checks that a batch and its list have room.
    ///
    /// # Errors
    ///
    /// [`PlanError::Room`] says what there is too much of; [`PlanError::Levels`] is for a cascade where there is no room for levels.
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
        match counts.into_iter().find(|(_, count, room)| count > room) {
            Some((what, count, room)) => Err(PlanError::Room { what, count, room }),
            None => Ok(()),
        }
    }
}

impl Most {
    /// A tile is of one request: only what is cut is merged.
    fn without_levels(capacity: &BatchCapacity, group: u32, rule: &MixedRule) -> Self {
        let MixedRule { decode, prefill, .. } = rule;
        // a request of the decode part is one tile
        let few =
            decode.capacity(asking(capacity), capacity.blocks(u32::from(group > 0), u32::MAX, None, decode.kv_align));
        let many = if longest(capacity, group) > decode.tile_rows.into() {
            let tiles = capacity.tiles(group, prefill.tile_rows, None);
            prefill.capacity(tiles, capacity.blocks(group, prefill.tile_rows, None, prefill.kv_align))
        } else {
            NONE
        };
        let both = |of: fn(&Capacity) -> u64, each: fn(u32) -> u64| {
            let [decode, prefill] =
                [(&few, decode), (&many, prefill)].map(|(part, rule)| (of(part), each(rule.tile_rows)));
            decode.0.saturating_mul(decode.1).saturating_add(prefill.0.saturating_mul(prefill.1))
        };
        let units = |rows: u32| rows.div_ceil(MERGE_ROWS).into();
        Most {
            merges: both(|part| part.merges, units),
            merge_parts: both(|part| part.slots, units),
            partial_rows: both(|part| part.slots, u64::from),
            decode: few,
            prefill: many,
        }
    }

    /// A row is in a tile of each level, at most. In each level
    ///
    /// - a tile of the decode part has rows of a request that is in no other: it has all rows of its requests;
    /// - tiles of the prefill part are those of parts of the batch of more rows than a decode tile has: of a request, or of several that share keys.
    ///
    /// All units of rows may be merged, each from a state of every level, and from one more for each cut of a tile that it is in.
    fn with_levels(capacity: &BatchCapacity, group: u32, rule: &MixedRule) -> Self {
        let MixedRule { decode, prefill, .. } = rule;
        let levels = u64::from(capacity.levels);
        let [few_rows, many_rows] = [decode, prefill].map(|rule| u64::from(rule.tile_rows));
        let rows = u64::from(capacity.qo_tokens).saturating_mul(group.into());
        let of_unit = Units::new(capacity, group, many_rows);
        let units = capacity.tiles(group, of_unit.whole, None);

        let few = levels.saturating_mul(asking(capacity));
        let blocks = capacity.blocks_of_segments(asking(capacity), decode.kv_align);
        let few_cuts = u64::from(decode.workers).saturating_sub(1).min(blocks);

        // where no request is a part by itself, two or more are
        let alone = longest(capacity, group) > few_rows;
        let parts = (asking(capacity) / if alone { 1 } else { 2 }).min(rows / (few_rows + 1));
        // of tiles that are followed by another of their part, the least has so many rows
        let least = (many_rows - of_unit.most + 1).next_multiple_of(of_unit.multiple).min(many_rows);
        let of_level = if parts == 0 { 0 } else { (rows + parts * (least - 1)) / least };
        let many = levels.saturating_mul(of_level);
        // tiles are cut only where there are fewer than workers, and into no more pieces
        let workers = if many == 0 { 0 } else { u64::from(prefill.workers) };
        let many_cuts = workers.saturating_sub(1);

        let cut = |few: u64, many: u64| few_cuts.saturating_mul(few).saturating_add(many_cuts.saturating_mul(many));
        let [few_rows, many_rows] = [few_rows, many_rows].map(|of_tile| of_tile.min(rows));
        Most {
            decode: Capacity { items: few.saturating_add(few_cuts), workers: decode.workers.into(), ..NONE },
            prefill: Capacity { items: many.max(workers), workers: many.max(workers), ..NONE },
            merges: units,
            merge_parts: levels
                .saturating_mul(units)
                .saturating_add(cut(few_rows / of_unit.least, many_rows / of_unit.least)),
            partial_rows: levels.saturating_mul(rows).saturating_add(cut(few_rows, many_rows)),
        }
    }
}

/// Rows of the units that the rows of a batch are merged in.
struct Units {
    /// A request has no more units than if each but its last had so many.
    whole: u32,
    /// The fewest.
    least: u64,
    /// The most.
    most: u64,
    /// A number that goes into all.
    multiple: u64,
}

impl Units {
    fn new(capacity: &BatchCapacity, group: u32, many_rows: u64) -> Self {
        let merge_rows = u64::from(MERGE_ROWS);
        // rows are cut into tiles of their own, and these into units
        let whole = many_rows / many_rows.div_ceil(merge_rows);
        let longest = longest(capacity, group);
        let multiple = if longest <= whole {
            u64::from(group) // a request is a unit
        } else {
            [u64::from(group), many_rows].into_iter().fold(merge_rows, greatest_common_divisor)
        };
        Units { whole: whole as u32, least: multiple, most: merge_rows.min(many_rows).min(longest.max(1)), multiple }
    }
}

/// Requests that have queries.
fn asking(capacity: &BatchCapacity) -> u64 {
    capacity.requests.min(capacity.qo_tokens).into()
}

/// Packed rows of the longest request.
fn longest(capacity: &BatchCapacity, group: u32) -> u64 {
    u64::from(capacity.qo_len.min(capacity.qo_tokens)).saturating_mul(group.into())
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
