//! Checks that a given mixed list belongs to a batch.

use super::{MERGE_ROWS, MixedItem, MixedList, MixedSegment};
use crate::{batch::Layout, plan::PlanError};

/// Marks a partial row that no item has filled.
const NONE: u32 = u32::MAX;

impl MixedList {
    /// Checks that the list belongs to a batch: every item names rows of neighbouring requests that have its keys,
    /// every row of the batch is written once (by an item or a merge), and every part of a merge is filled once, with
    /// states of its rows. Takes time linear in the list and in the rows of the batch.
    ///
    /// Whether items cover every visible key is not checked: that depends on the mask.
    ///
    /// # Errors
    ///
    /// [`PlanError::Foreign`] names the first item or merge that does not belong to the batch.
    pub fn check(&self, layout: &Layout) -> Result<(), PlanError> {
        let least = [("tile_rows", self.tile_rows[0]), ("tile_rows", self.tile_rows[1]), ("group", self.group)];
        if let Some((what, _)) = least.into_iter().find(|(_, value)| *value == 0) {
            return Err(PlanError::Zero { what });
        }
        self.check_workers()?;
        let rows = layout.qo_tokens() * self.group as usize;
        // how often each PackGQA row of the batch is written, and the row whose state each partial row holds
        let (mut written, mut filled) = (vec![0u8; rows], vec![NONE; self.partial_rows as usize]);
        for (index, item) in self.items().enumerate() {
            let tile_rows = self.tile_rows[usize::from(index >= self.decode.len())];
            let foreign = |(field, value)| PlanError::Foreign { what: "item", index, field, value };
            let first = self.check_item(layout, item, tile_rows).map_err(foreign)?;
            for row in 0..item.rows as usize {
                let of_batch = first + row;
                let Ok(partial) = usize::try_from(item.partial) else {
                    written[of_batch] = written[of_batch].saturating_add(1);
                    continue;
                };
                if std::mem::replace(&mut filled[partial + row], of_batch as u32) != NONE {
                    return Err(foreign(("partial", item.partial)));
                }
            }
        }
        let mut next = 0;
        for (index, merge) in self.merges.iter().enumerate() {
            let foreign = |field, value| PlanError::Foreign { what: "merge", index, field, value };
            let first = self.first_row(layout, merge.request, merge.first_row).map_err(|(f, v)| foreign(f, v))?;
            let end = layout.qo_indptr()[merge.request as usize + 1] as usize * self.group as usize;
            if merge.rows < 1 || merge.rows as u32 > MERGE_ROWS || first + merge.rows as usize > end {
                return Err(foreign("rows", merge.rows));
            }
            if merge.first as usize != next {
                return Err(foreign("first", merge.first));
            }
            let count = usize::try_from(merge.count).ok().filter(|&count| count > 0);
            let parts = count.and_then(|count| self.merge_parts.get(next..next + count));
            for &part in parts.ok_or_else(|| foreign("count", merge.count))? {
                let Ok(at) = usize::try_from(part) else { return Err(foreign("part", part)) };
                let rows = filled.get(at..at + merge.rows as usize).ok_or_else(|| foreign("part", part))?;
                if !rows.iter().enumerate().all(|(row, &filled)| filled as usize == first + row) {
                    return Err(foreign("part", part));
                }
                next += 1;
            }
            let rows = &mut written[first..first + merge.rows as usize];
            rows.iter_mut().for_each(|times| *times = times.saturating_add(1));
        }
        if next != self.merge_parts.len() {
            return Err(PlanError::Foreign { what: "list", index: 0, field: "merge_parts", value: next as i32 });
        }
        match written.iter().position(|&times| times != 1) {
            Some(row) => {
                Err(PlanError::Foreign { what: "row", index: row, field: "writers", value: written[row].into() })
            }
            None => Ok(()),
        }
    }

    /// Checks an item, except for its partial rows. Returns its first row among those of the batch.
    fn check_item(&self, layout: &Layout, item: &MixedItem, tile_rows: u32) -> Result<usize, (&'static str, i32)> {
        let first = self.first_row(layout, item.request, item.first_row)?;
        let end = i64::from(item.request) + i64::from(item.requests);
        if item.requests < 1 || end > layout.batch() as i64 {
            return Err(("requests", item.requests));
        }
        let rows_end = layout.qo_indptr()[end as usize] as usize * self.group as usize;
        if item.rows < 1 || item.rows as u32 > tile_rows || first + item.rows as usize > rows_end {
            return Err(("rows", item.rows));
        }
        let keys = self.tile_of(layout, item).ok_or(("memory", item.memory))?;
        if item.kv_begin < keys.kv_begin || item.kv_begin > item.kv_end {
            return Err(("kv_begin", item.kv_begin));
        }
        if item.kv_end > keys.kv_begin + keys.keys {
            return Err(("kv_end", item.kv_end));
        }
        let partial_end = i64::from(item.partial) + i64::from(item.rows);
        if item.partial < -1 || item.partial >= 0 && partial_end > i64::from(self.partial_rows) {
            return Err(("partial", item.partial));
        }
        let qo = (layout.qo_indptr()[item.request as usize], layout.qo_len(item.request as usize) as i32);
        if (item.qo_token, item.qo_len, item.kv_token, item.kv_len)
            != (qo.0, qo.1, layout.kv_indptr()[item.request as usize], layout.kv_len(item.request as usize) as i32)
        {
            return Err(("qo_token", item.qo_token));
        }
        Ok(first)
    }

    /// The keys of an item: those of a segment that all of its requests have, or of its request.
    fn tile_of(&self, layout: &Layout, item: &MixedItem) -> Option<MixedSegment> {
        let request = item.request as usize;
        let names =
            |keys: &MixedSegment| (item.kv_first, item.memory, item.pass) == (keys.kv_begin, keys.memory, keys.pass);
        if !layout.has_levels() || layout.kv_len(request) == 0 {
            return Some(MixedSegment::of_request(layout, request)).filter(|keys| item.requests == 1 && names(keys));
        }
        let of_all = layout.segments_of(request).map(|(_, segment)| segment);
        let mut of_all =
            of_all.filter(|segment| request + item.requests as usize <= segment.first_request + segment.requests);
        of_all.find_map(|segment| Some(MixedSegment::of(layout, segment)).filter(names))
    }

    /// Index of a PackGQA row of a request among those of the batch.
    fn first_row(&self, layout: &Layout, request: i32, first_row: i32) -> Result<usize, (&'static str, i32)> {
        let index = usize::try_from(request).ok().filter(|&r| r < layout.batch()).ok_or(("request", request))?;
        let packed = layout.qo_len(index) * self.group as usize;
        let row = usize::try_from(first_row).ok().filter(|&row| row < packed).ok_or(("first_row", first_row))?;
        Ok(layout.qo_indptr()[index] as usize * self.group as usize + row)
    }

    /// Checks that workers run every item of the decode part once, in order.
    fn check_workers(&self) -> Result<(), PlanError> {
        let items = self.decode.len();
        if self.workers.len() < 2 && items > 0 {
            return Err(PlanError::NoWorkers { items });
        }
        let mut before = 0;
        for (entry, &value) in self.workers.iter().enumerate() {
            let (least, most) = match entry {
                _ if entry + 1 == self.workers.len() => (items, items),
                0 => (0, 0),
                _ => (before, items),
            };
            before = match usize::try_from(value) {
                Ok(index) if (least..=most).contains(&index) => index,
                _ => return Err(PlanError::Workers { entry, value, least, most }),
            };
        }
        Ok(())
    }
}
