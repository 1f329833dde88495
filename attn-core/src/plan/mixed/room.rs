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

impl MixedRoom {
    /// Room for every batch within a capacity, whichever its mixture. For batches without levels.
    ///
    /// # Errors
    ///
    /// More of something than `i32` counts; a rule with a 0 where 1 is the least.
    pub fn of(capacity: &BatchCapacity, heads: Heads, rule: &MixedRule) -> Result<Self, PlanError> {
        let group = heads.group();
        rule.check(group)?;
        let MixedRule { decode, prefill, .. } = rule;
        // a request of the decode part is one tile
        let requests = u64::from(capacity.requests.min(capacity.qo_tokens));
        let few = decode.capacity(requests, capacity.blocks(u32::from(group > 0), u32::MAX, None, decode.kv_align));
        let longest = u64::from(capacity.qo_len.min(capacity.qo_tokens)) * u64::from(group);
        let many = if longest > decode.tile_rows.into() {
            let tiles = capacity.tiles(group, prefill.tile_rows, None);
            prefill.capacity(tiles, capacity.blocks(group, prefill.tile_rows, None, prefill.kv_align))
        } else {
            Capacity { items: 0, workers: 0, merges: 0, slots: 0 }
        };
        let count = |what, value: u64| Ok::<_, PlanError>(count_i32(what, value)? as usize);
        let both = |of: fn(&Capacity) -> u64, each: fn(u32) -> u64| {
            let [decode, prefill] =
                [(&few, decode), (&many, prefill)].map(|(part, rule)| (of(part), each(rule.tile_rows)));
            decode.0.saturating_mul(decode.1).saturating_add(prefill.0.saturating_mul(prefill.1))
        };
        let units = |rows: u32| rows.div_ceil(MERGE_ROWS).into();
        Ok(MixedRoom {
            requests: capacity.requests as usize,
            pages: capacity.pages.map(|_| count("pages", capacity.page_entries())).transpose()?,
            decode: count("work items", few.items)?,
            workers: count("workers", few.workers)?,
            prefill: count("work items", many.items)?,
            merges: count("merges", both(|part| part.merges, units))?,
            merge_parts: count("parts of merges", both(|part| part.slots, units))?,
            partial_rows: count("rows of partial states", both(|part| part.slots, u64::from))?,
        })
    }

    /// Checks that a batch and its list have room.
    ///
    /// # Errors
    ///
    /// [`PlanError::Room`] says what there is too much of; [`PlanError::Levels`] is for a cascade.
    pub fn check(&self, layout: &Layout, work: &MixedList) -> Result<(), PlanError> {
        if layout.has_levels() {
            return Err(PlanError::Levels { what: "a plan with a capacity" });
        }
        let counts = [
            ("requests", layout.batch(), self.requests),
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
