//! Checks that a given work list belongs to a batch.

use super::{PlanError, WorkList};
use crate::batch::Layout;

/// Name and value of the wrong field of a tile.
type Field = (&'static str, i32);

impl WorkList {
    /// Checks that the list belongs to a batch: the rows, KV range, slot and merge of every item and merge exist, and
    /// workers run every item once. Takes time linear in the list. The end of a KV range of virtual keys is not checked
    /// here: the backend that runs the list knows the lengths of key lists.
    ///
    /// # Errors
    ///
    /// [`PlanError::Foreign`] names the first item or merge that does not belong to the batch.
    pub fn check(&self, layout: &Layout) -> Result<(), PlanError> {
        for (what, value) in [("tile_rows", self.tile_rows), ("group", self.group)] {
            if value == 0 {
                return Err(PlanError::Zero { what });
            }
        }
        self.check_branches()?;
        self.check_workers()?;
        let slots = i64::from(self.slots);
        for (index, item) in self.items.iter().enumerate() {
            let foreign = |field, value| PlanError::Foreign { what: "item", index, field, value };
            let request = self
                .check_rows(layout, item.request, item.first_row, item.rows)
                .map_err(|(field, value)| foreign(field, value))?;
            let kv_len = if self.lists { i32::MAX } else { layout.kv_len(request) as i32 };
            if item.kv_end < 0 || item.kv_end > kv_len {
                return Err(foreign("kv_end", item.kv_end));
            }
            if item.kv_begin < 0 || item.kv_begin > item.kv_end {
                return Err(foreign("kv_begin", item.kv_begin));
            }
            if item.partial < -1 || i64::from(item.partial) >= slots {
                return Err(foreign("partial", item.partial));
            }
            let merged = usize::try_from(item.merge).is_ok_and(|merge| merge < self.merges.len());
            if !(merged && item.partial >= 0 || item.merge == -1 && item.partial == -1) {
                return Err(foreign("merge", item.merge));
            }
        }
        for (index, merge) in self.merges.iter().enumerate() {
            let foreign = |field, value| PlanError::Foreign { what: "merge", index, field, value };
            self.check_rows(layout, merge.request, merge.first_row, merge.rows)
                .map_err(|(field, value)| foreign(field, value))?;
            if merge.first < 0 || i64::from(merge.first) > slots {
                return Err(foreign("first", merge.first));
            }
            if merge.count < 1 || i64::from(merge.first) + i64::from(merge.count) > slots {
                return Err(foreign("count", merge.count));
            }
        }
        Ok(())
    }

    /// Checks that the counts of the branches add up to the items and workers of the list.
    fn check_branches(&self) -> Result<(), PlanError> {
        if self.branch_counts.is_empty() {
            return Ok(());
        }
        let items = self.branch_counts.iter().map(|count| u64::from(count.items)).sum();
        let entries = self.branch_counts.iter().map(|count| u64::from(count.workers) + 1).sum();
        for (what, counted, listed) in
            [("items", items, self.items.len()), ("entries of workers", entries, self.workers.len())]
        {
            if counted != listed as u64 {
                return Err(PlanError::Branches { what, counted, listed });
            }
        }
        Ok(())
    }

    /// Checks that the workers of each branch run its items once, in order.
    fn check_workers(&self) -> Result<(), PlanError> {
        for branch in self.branches() {
            let (first, last) = (branch.items.start, branch.items.end);
            if branch.workers.len() < 2 && first < last {
                return Err(PlanError::NoWorkers { items: last - first });
            }
            let mut before = first;
            for entry in branch.workers.clone() {
                let value = self.workers[entry];
                let (least, most) = match entry {
                    _ if entry + 1 == branch.workers.end => (last, last),
                    _ if entry == branch.workers.start => (first, first),
                    _ => (before, last),
                };
                before = match usize::try_from(value) {
                    Ok(index) if (least..=most).contains(&index) => index,
                    _ => return Err(PlanError::Workers { entry, value, least, most }),
                };
            }
        }
        Ok(())
    }

    /// The request of a tile, if it exists and has the rows.
    fn check_rows(&self, layout: &Layout, request: i32, first_row: i32, rows: i32) -> Result<usize, Field> {
        let index = usize::try_from(request).ok().filter(|&r| r < layout.batch()).ok_or(("request", request))?;
        let packed = layout.qo_len(index) as u64 * u64::from(self.group);
        let first = u64::try_from(first_row).ok().filter(|&first| first < packed).ok_or(("first_row", first_row))?;
        match u64::try_from(rows) {
            Ok(count) if count >= 1 && count <= u64::from(self.tile_rows) && first + count <= packed => Ok(index),
            _ => Err(("rows", rows)),
        }
    }
}
