//! Coordinates of PackGQA rows and of keys.

use super::Layout;
use crate::lang::{LogitIndex, RowIndex};
use crate::spec::Heads;

/// The coordinates of a PackGQA row of a request: query `packed_row / group`, head `kv_head * group + packed_row %
/// group`.
pub(crate) fn row_index(layout: &Layout, heads: Heads, request: usize, kv_head: usize, packed_row: usize) -> RowIndex {
    let group = heads.group() as usize;
    let (qo_len, kv_len) = (layout.qo_len(request) as i32, layout.kv_len(request) as i32);
    let qo_row = (packed_row / group) as i32;
    RowIndex {
        batch: request as i32,
        qo_row,
        // the queries are the last tokens of the sequence
        qo_pos: qo_row + (kv_len - qo_len),
        qo_token: layout.qo_indptr()[request] + qo_row,
        qo_head: (kv_head * group + packed_row % group) as i32,
        kv_head: kv_head as i32,
        qo_len,
        kv_len,
    }
}

/// The coordinates of the logit of a row and key number `key` of its request, where the row has no key list.
pub(crate) fn logit_index(layout: &Layout, row: RowIndex, key: usize) -> LogitIndex {
    let kv_pos = key as i32;
    LogitIndex { row, kv_pos, kv_token: layout.kv_indptr()[row.batch as usize] + kv_pos, kv_slot: 0 }
}

impl Layout {
    /// The coordinates of query number `query` of a request under a query head.
    #[must_use]
    pub fn row(&self, heads: Heads, request: usize, query: usize, qo_head: usize) -> RowIndex {
        let group = heads.group() as usize;
        row_index(self, heads, request, qo_head / group, query * group + qo_head % group)
    }
}
