//! Index words of packed rows and of keys.

use crate::{
    batch::Layout,
    lang::{LogitIndex, RowIndex},
    spec::Heads,
};

/// The index words of a packed row of a request: query `row / group`, head `kv_head * group + row % group`.
pub(crate) fn row_index(layout: &Layout, heads: Heads, request: usize, kv_head: usize, row: usize) -> RowIndex {
    let group = heads.group() as usize;
    let (qo_len, kv_len) = (layout.qo_len(request) as i32, layout.kv_len(request) as i32);
    let qo_row = (row / group) as i32;
    RowIndex {
        batch: request as i32,
        qo_row,
        qo_pos: qo_row + (kv_len - qo_len),
        qo_token: layout.qo_indptr()[request] + qo_row,
        qo_head: (kv_head * group + row % group) as i32,
        kv_head: kv_head as i32,
        qo_len,
        kv_len,
    }
}

/// The index words of a row and a key that no list named.
pub(crate) fn logit_index(layout: &Layout, row: RowIndex, key: usize) -> LogitIndex {
    let kv_pos = key as i32;
    LogitIndex { row, kv_pos, kv_token: layout.kv_indptr()[row.batch as usize] + kv_pos, kv_slot: 0 }
}
