//! Whether work that someone else made belongs to a batch.

use super::{PlanError, WorkList};
use crate::batch::Layout;

/// Names of the fields of a tile's first row and number of rows, as errors name them.
type Field = (&'static str, i32);

impl WorkList {
    /// Checks that the list belongs to a batch: every item and merge names rows, a span and slots that are there.
    /// Time is linear in the list. Where spans count virtual keys, their end is not checked: who runs the list knows
    /// how long its lists are.
    ///
    /// # Errors
    ///
    /// [`PlanError::Foreign`] for the first that does not.
    pub fn check(&self, layout: &Layout) -> Result<(), PlanError> {
        for (what, value) in [("tile_rows", self.tile_rows), ("group", self.group)] {
            if value == 0 {
                return Err(PlanError::Zero { what });
            }
        }
        self.check_arms()?;
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

    /// The arms have the items, all of them.
    fn check_arms(&self) -> Result<(), PlanError> {
        let counted: u64 = self.arm_items.iter().map(|&n| u64::from(n)).sum();
        if self.arm_items.is_empty() || counted == self.items.len() as u64 {
            return Ok(());
        }
        Err(PlanError::Arms { counted, items: self.items.len() })
    }

    /// The request, if it is there and has the rows.
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
