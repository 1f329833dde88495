//! Checks that a given work list belongs to a batch.

use std::{mem, ops::Range};

use super::{MERGE_ROWS, PlanError, WorkItem, WorkList, WorkPart};
use crate::batch::{KvSegment, Layout};

/// Name and value of the wrong field of an item or merge.
type Field = (&'static str, i32);

fn ensure(field: &'static str, value: i32, right: bool) -> Result<(), Field> {
    if right { Ok(()) } else { Err((field, value)) }
}

/// Marks a partial row that no item has filled.
const NONE: u32 = u32::MAX;

impl WorkList {
    /// Checks that the list belongs to a batch: workers run every item once, every item names rows of neighbouring
    /// requests that have its keys, every row of the batch is written once (by an item or a merge), and every state of
    /// a merge is filled once, with states of its rows. Takes time linear in the list and in the rows of the batch.
    ///
    /// Whether items cover every visible key is not checked: that depends on the mask. Neither is the end of a KV range
    /// of virtual keys: the backend that runs the list knows the lengths of key lists.
    ///
    /// # Errors
    ///
    /// [`PlanError::Foreign`] names the first item, merge or row that does not belong to the batch.
    pub fn check(&self, layout: &Layout) -> Result<(), PlanError> {
        let least = self.parts.iter().map(|part| ("tile_rows", part.tile_rows));
        if let Some((what, _)) = least.chain([("group", self.group)]).find(|(_, value)| *value == 0) {
            return Err(PlanError::Zero { what });
        }
        self.check_parts()?;
        self.parts.iter().try_for_each(|part| self.check_workers(part))?;
        // how often each PackGQA row of the batch is written, and the row whose state each partial row holds
        let mut written = vec![0u8; layout.qo_tokens() * self.group as usize];
        let mut filled = vec![NONE; self.partial_rows as usize];
        for part in &self.parts {
            for index in part.items.clone() {
                let item = &self.items[index];
                let foreign = |(field, value)| PlanError::Foreign { what: "item", index, field, value };
                let first = self.check_item(layout, item, part).map_err(foreign)?;
                for row in 0..item.rows as usize {
                    let of_batch = first + row;
                    let Ok(partial) = usize::try_from(item.partial) else {
                        written[of_batch] = written[of_batch].saturating_add(1);
                        continue;
                    };
                    let before = mem::replace(&mut filled[partial + row], of_batch as u32);
                    ensure("partial", item.partial, before == NONE).map_err(foreign)?;
                }
            }
        }
        self.check_merges(layout, &mut written, &mut filled)?;
        written.iter().enumerate().try_for_each(|(index, &times)| {
            let foreign = |(field, value)| PlanError::Foreign { what: "row", index, field, value };
            ensure("writers", times.into(), times == 1).map_err(foreign)
        })
    }

    /// Checks that all states of merges hold the rows of the merge, and counts the rows as written.
    fn check_merges(&self, layout: &Layout, written: &mut [u8], filled: &mut [u32]) -> Result<(), PlanError> {
        let (most_rows, states) = match self.is_mixed() {
            true => (MERGE_ROWS, self.merge_parts.len()),
            false => (u32::MAX, self.partial_rows as usize),
        };
        for (index, merge) in self.merges.iter().enumerate() {
            let foreign = |(field, value)| PlanError::Foreign { what: "merge", index, field, value };
            let first = self.first_row(layout, merge.request, merge.first_row).map_err(foreign)?;
            let end = layout.qo_indptr()[merge.request as usize + 1] as usize * self.group as usize;
            let known = merge.rows > 0 && merge.rows as u32 <= most_rows && first + merge.rows as usize <= end;
            ensure("rows", merge.rows, known).map_err(foreign)?;
            ensure("first", merge.first, merge.first >= 0).map_err(foreign)?;
            let end = i64::from(merge.first) + i64::from(merge.count);
            ensure("count", merge.count, merge.count > 0 && end <= states as i64).map_err(foreign)?;
            let rows = first..first + merge.rows as usize;
            for state in self.states_of(merge) {
                let held = usize::try_from(state).ok().and_then(|at| filled.get_mut(at..at + rows.len()));
                let takes = |(held, row): (&mut u32, usize)| mem::replace(held, NONE) as usize == row;
                let right = held.is_some_and(|held| held.iter_mut().zip(rows.clone()).all(takes));
                ensure("state", state, right).map_err(foreign)?;
            }
            written[rows].iter_mut().for_each(|times| *times = times.saturating_add(1));
        }
        Ok(())
    }

    /// Checks an item, except for the rows that its partial states take. Returns its first row among those of the
    /// batch.
    fn check_item(&self, layout: &Layout, item: &WorkItem, part: &WorkPart) -> Result<usize, Field> {
        let first = self.first_row(layout, item.request, item.first_row)?;
        let end = i64::from(item.request) + i64::from(item.requests);
        ensure("requests", item.requests, item.requests > 0 && end <= layout.batch() as i64)?;
        let rows_end = layout.qo_indptr()[end as usize] as usize * self.group as usize;
        let known = item.rows > 0 && item.rows as u32 <= part.tile_rows && first + item.rows as usize <= rows_end;
        ensure("rows", item.rows, known)?;
        let keys = self.keys_of(layout, item).ok_or(("memory", item.memory))?;
        ensure("kv_end", item.kv_end, self.lists || item.kv_end <= keys.kv_begin + keys.keys)?;
        ensure("kv_begin", item.kv_begin, (keys.kv_begin..=item.kv_end).contains(&item.kv_begin))?;
        let partial_end = i64::from(item.partial) + i64::from(item.rows);
        let held = item.partial >= 0 && partial_end <= self.partial_rows.into();
        ensure("partial", item.partial, held || item.partial == -1)?;
        let merged = usize::try_from(item.merge).is_ok_and(|merge| merge < self.merges.len());
        ensure("merge", item.merge, merged == (held && !self.is_mixed()) && (merged || item.merge == -1))?;
        let request = item.request as usize;
        let qo = (layout.qo_indptr()[request], layout.qo_len(request) as i32);
        let kv = (layout.kv_indptr()[request], layout.kv_len(request) as i32);
        ensure("qo_token", item.qo_token, ((item.qo_token, item.qo_len), (item.kv_token, item.kv_len)) == (qo, kv))?;
        Ok(first)
    }

    /// The keys of an item: those of a segment that all of its requests have, or of its request.
    fn keys_of(&self, layout: &Layout, item: &WorkItem) -> Option<KvSegment> {
        let request = item.request as usize;
        let names = |keys: &KvSegment| {
            let first_key = (item.kv_first, item.memory, item.pass) == (keys.kv_begin, keys.memory, keys.pass);
            first_key && request + item.requests as usize <= keys.requests().end
        };
        if layout.has_levels() && layout.kv_len(request) > 0 {
            return layout.segments_of(request).map(|(_, segment)| *segment).find(names);
        }
        Some(layout.whole_segment(request)).filter(names)
    }

    /// Index of a PackGQA row of a request among those of the batch.
    fn first_row(&self, layout: &Layout, request: i32, first_row: i32) -> Result<usize, Field> {
        let index = usize::try_from(request).ok().filter(|&r| r < layout.batch()).ok_or(("request", request))?;
        let packed = layout.qo_len(index) * self.group as usize;
        let row = usize::try_from(first_row).ok().filter(|&row| row < packed).ok_or(("first_row", first_row))?;
        Ok(layout.qo_indptr()[index] as usize * self.group as usize + row)
    }

    /// Checks that the parts have all items and entries of workers, in order.
    fn check_parts(&self) -> Result<(), PlanError> {
        let all = |field, listed: usize, of_part: fn(&WorkPart) -> &Range<usize>| {
            let ranges = self.parts.iter().map(of_part);
            let end = ranges.fold(0, |end, range| if range.start == end { range.end } else { end });
            let (index, value) = (self.parts.len(), listed as i32);
            if end == listed { Ok(()) } else { Err(PlanError::Foreign { what: "part", index, field, value }) }
        };
        all("items", self.items.len(), |part| &part.items)?;
        all("workers", self.workers.len(), |part| &part.workers)
    }

    /// Checks that the workers of a part run its items once, in order.
    fn check_workers(&self, part: &WorkPart) -> Result<(), PlanError> {
        let (first, last) = (part.items.start, part.items.end);
        let mut before = first;
        for entry in part.workers.clone() {
            let value = self.workers[entry];
            let (least, most) = match entry {
                _ if entry + 1 == part.workers.end => (last, last),
                _ if entry == part.workers.start => (first, first),
                _ => (before, last),
            };
            before = match usize::try_from(value) {
                Ok(index) if (least..=most).contains(&index) => index,
                _ => return Err(PlanError::Workers { entry, value, least, most }),
            };
        }
        Ok(())
    }
}
