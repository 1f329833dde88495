//! Dense tables of blocks.

use super::{block_lists::BlockLists, error::SparseError};

/// A dense table of the blocks of one request.
#[derive(Clone, Copy, Debug)]
pub struct BlockMap<'a> {
    /// Queries and keys of a block: R, C.
    pub block: [usize; 2],
    /// KV heads; 1 where all share the table.
    pub heads: usize,
    /// Blocks of queries: `ceil(qo_len / R)`.
    pub rows: usize,
    /// Blocks of keys: `ceil(kv_len / C)`.
    pub columns: usize,
    /// Whether a query block attends to a key block: (heads, rows, columns), row-major.
    pub attends: &'a [bool],
}

/// The columns that are set in a row of a table.
pub(super) fn columns(row: &[bool]) -> impl Iterator<Item = i32> + '_ {
    row.iter().zip(0i32..).filter(|(on, _)| **on).map(|(_, column)| column)
}

pub(super) fn lists(requests: &[BlockMap<'_>]) -> Result<BlockLists, SparseError> {
    let first = requests.first().ok_or(SparseError::Empty)?;
    let mut lists = BlockLists::new(first.block, first.heads)?;
    for (request, map) in requests.iter().enumerate() {
        let same = |what, got: usize, want: usize| {
            if got == want { Ok(()) } else { Err(SparseError::Differs { request, what, got, want }) }
        };
        same("heads", map.heads, first.heads)?;
        same("queries a block", map.block[0], first.block[0])?;
        same("keys a block", map.block[1], first.block[1])?;
        let want = map.heads * map.rows * map.columns;
        if map.attends.len() != want {
            return Err(SparseError::Len { array: "attends", len: map.attends.len(), want });
        }
        for head in 0..map.heads {
            for row in 0..map.rows {
                lists.push_row(head, columns(&map.attends[(head * map.rows + row) * map.columns..][..map.columns]))?;
            }
        }
        lists.end_request()?;
    }
    Ok(lists)
}
