//! Cuts the queries of a batch into tiles of PackGQA rows.

use super::{PlanError, count::count_i32};
use crate::{batch::Layout, lang::QueryTile};

/// PackGQA rows of one request: row `r` is query `r / group` under head `r % group` of the KV head's group (PackGQA).
#[derive(Clone, Copy, Debug)]
pub(super) struct QTile {
    pub(super) request: u32,
    pub(super) first_row: u32,
    pub(super) rows: u32,
}

/// Writes every tile of a batch, in order. `tile_rows` and `group` are at least 1. With `queries`, a tile has rows of
/// only one run of that many consecutive queries, which share a key list.
pub(super) fn cut_q_tiles(
    layout: &Layout,
    group: u64,
    tile_rows: u64,
    queries: Option<u64>,
    tiles: &mut Vec<QTile>,
) -> Result<(), PlanError> {
    tiles.clear();
    let (mut most, mut total) = (0u64, 0u64);
    let packed_rows = || layout.qo_indptr().windows(2).map(|ends| (ends[1] - ends[0]) as u64 * group);
    for packed in packed_rows() {
        most = most.max(packed);
        total += match run_rows(queries, group, packed) {
            _ if packed == 0 => 0,
            run if packed <= tile_rows.min(run) => 1,
            run => packed / run * run.div_ceil(tile_rows) + (packed % run).div_ceil(tile_rows),
        };
    }
    count_i32("PackGQA rows of one request", most)?;
    count_i32("query tiles", total)?;
    tiles.reserve(total as usize);
    for (request, packed) in packed_rows().enumerate() {
        let run = run_rows(queries, group, packed);
        let mut first_row = 0;
        while first_row < packed {
            let run_end = if packed <= run { packed } else { (first_row / run + 1) * run };
            let end = (first_row + tile_rows).min(run_end).min(packed);
            let rows = (end - first_row) as u32;
            tiles.push(QTile { request: request as u32, first_row: first_row as u32, rows });
            first_row = end;
        }
    }
    Ok(())
}

/// PackGQA rows of the longest run of queries that one tile may span; at least 1.
fn run_rows(queries: Option<u64>, group: u64, packed: u64) -> u64 {
    queries.map_or(packed, |queries| queries.max(1) * group).max(1)
}

impl QTile {
    /// The coordinates of the tile over ranges of query heads and KV heads, each given as [first, last].
    #[inline]
    pub(super) fn query_tile(&self, layout: &Layout, group: u32, qo_heads: [i32; 2], kv_heads: [i32; 2]) -> QueryTile {
        let request = self.request as usize;
        let (qo_len, kv_len) = (layout.qo_len(request) as i32, layout.kv_len(request) as i32);
        let last_row = self.first_row + self.rows - 1;
        // decode has one query and many tiles, so that this avoids a division
        let (first, last) = if last_row < group { (0, 0) } else { (self.first_row / group, last_row / group) };
        let (first, last) = (first as i32, last as i32);
        let first_query = layout.qo_indptr()[request];
        let pos = |row: i32| row + (kv_len - qo_len);
        QueryTile {
            batch: self.request as i32,
            qo_row_min: first,
            qo_row_max: last,
            qo_pos_min: pos(first),
            qo_pos_max: pos(last),
            qo_token_min: first_query + first,
            qo_token_max: first_query + last,
            qo_head_min: qo_heads[0],
            qo_head_max: qo_heads[1],
            kv_head_min: kv_heads[0],
            kv_head_max: kv_heads[1],
            qo_len,
            kv_len,
        }
    }
}
