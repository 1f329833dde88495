//! Checks that a given work list belongs to a batch.

use std::{mem, ops::Range};

use super::{MERGE_ROWS, PlanError, WorkItem, WorkList, WorkPart, segment::KvSegment};
use crate::batch::Layout;

/// Name and value of the wrong field of an item or merge.
type Field = (&'static str, i32);

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
        let zero = |what| Err(PlanError::Zero { what });
        if self.group == 0 {
            return zero("group");
        }
        if self.parts.iter().any(|part| part.tile_rows == 0) {
            return zero("tile_rows");
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
                    if mem::replace(&mut filled[partial + row], of_batch as u32) != NONE {
                        return Err(foreign(("partial", item.partial)));
                    }
                }
            }
        }
        self.check_merges(layout, &mut written, &mut filled)?;
        match written.iter().position(|&times| times != 1) {
            Some(row) => {
                Err(PlanError::Foreign { what: "row", index: row, field: "writers", value: written[row].into() })
            }
            None => Ok(()),
        }
    }

    /// Checks that all states of merges hold the rows of the merge, and counts the rows as written.
    fn check_merges(&self, layout: &Layout, written: &mut [u8], filled: &mut [u32]) -> Result<(), PlanError> {
        let most = if self.is_mixed() { MERGE_ROWS } else { u32::MAX };
        for (index, merge) in self.merges.iter().enumerate() {
            let foreign = |(field, value)| PlanError::Foreign { what: "merge", index, field, value };
            let first = self.first_row(layout, merge.request, merge.first_row).map_err(foreign)?;
            let end = layout.qo_indptr()[merge.request as usize + 1] as usize * self.group as usize;
            if merge.rows < 1 || merge.rows as u32 > most || first + merge.rows as usize > end {
                return Err(foreign(("rows", merge.rows)));
            }
            if merge.first < 0 {
                return Err(foreign(("first", merge.first)));
            }
            let end = i64::from(merge.first) + i64::from(merge.count);
            let most = if self.is_mixed() { self.merge_parts.len() } else { self.partial_rows as usize };
            if merge.count < 1 || end > most as i64 {
                return Err(foreign(("count", merge.count)));
            }
            let rows = first..first + merge.rows as usize;
            for state in self.states_of(merge) {
                let held = usize::try_from(state).ok().and_then(|at| filled.get_mut(at..at + rows.len()));
                let held = held.ok_or_else(|| foreign(("state", state)))?;
                if !held.iter_mut().zip(rows.clone()).all(|(held, row)| mem::replace(held, NONE) as usize == row) {
                    return Err(foreign(("state", state)));
                }
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
        if item.requests < 1 || end > layout.batch() as i64 {
            return Err(("requests", item.requests));
        }
        let rows_end = layout.qo_indptr()[end as usize] as usize * self.group as usize;
        if item.rows < 1 || item.rows as u32 > part.tile_rows || first + item.rows as usize > rows_end {
            return Err(("rows", item.rows));
        }
        let keys = self.keys_of(layout, item).ok_or(("memory", item.memory))?;
        if item.kv_end > if self.lists { i32::MAX } else { keys.kv_begin + keys.keys } {
            return Err(("kv_end", item.kv_end));
        }
        if item.kv_begin < keys.kv_begin || item.kv_begin > item.kv_end {
            return Err(("kv_begin", item.kv_begin));
        }
        let partial_end = i64::from(item.partial) + i64::from(item.rows);
        if item.partial < -1 || item.partial >= 0 && partial_end > i64::from(self.partial_rows) {
            return Err(("partial", item.partial));
        }
        let merged = usize::try_from(item.merge).is_ok_and(|merge| merge < self.merges.len());
        if merged != (item.partial >= 0 && !self.is_mixed()) || !merged && item.merge != -1 {
            return Err(("merge", item.merge));
        }
        let request = item.request as usize;
        let qo = (layout.qo_indptr()[request], layout.qo_len(request) as i32);
        let kv = (layout.kv_indptr()[request], layout.kv_len(request) as i32);
        if ((item.qo_token, item.qo_len), (item.kv_token, item.kv_len)) != (qo, kv) {
            return Err(("qo_token", item.qo_token));
        }
        Ok(first)
    }

    /// The keys of an item: those of a segment that all of its requests have, or of its request.
    fn keys_of(&self, layout: &Layout, item: &WorkItem) -> Option<KvSegment> {
        let request = item.request as usize;
        let names =
            |keys: &KvSegment| (item.kv_first, item.memory, item.pass) == (keys.kv_begin, keys.memory, keys.pass);
        if !layout.has_levels() || layout.kv_len(request) == 0 {
            return Some(KvSegment::of_request(layout, request)).filter(|keys| item.requests == 1 && names(keys));
        }
        let of_all = layout.segments_of(request).map(|(_, segment)| segment);
        let mut of_all =
            of_all.filter(|segment| request + item.requests as usize <= segment.first_request + segment.requests);
        of_all.find_map(|segment| Some(KvSegment::of(layout, segment)).filter(names))
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
