//! Blocks of different sizes, in each KV head its own.

use super::block_lists::BlockLists;
use super::block_map::columns;
use super::error::{SparseError, count};

/// One request whose queries and keys are cut into blocks of different sizes, in each KV head its own: the arguments of
/// FlashInfer's `VariableBlockSparseAttentionWrapper`.
#[derive(Clone, Copy, Debug)]
pub struct VariableBlocks<'a> {
    /// KV heads.
    pub heads: usize,
    /// Query blocks of a head.
    pub rows: usize,
    /// Key blocks of a head.
    pub columns: usize,
    /// Whether a query block attends to a key block: (heads, rows, columns).
    pub attends: &'a [bool],
    /// Queries of each block: (heads, rows). The sum is the same for every head.
    pub row_sizes: &'a [i32],
    /// Keys of each block: (heads, columns). The sum is the same for every head.
    pub column_sizes: &'a [i32],
}

impl VariableBlocks<'_> {
    fn check(&self) -> Result<(), SparseError> {
        let len = |array, len: usize, want: usize| {
            if len == want { Ok(()) } else { Err(SparseError::Len { array, len, want }) }
        };
        if self.heads == 0 {
            return Err(SparseError::Empty);
        }
        len("attends", self.attends.len(), self.heads * self.rows * self.columns)?;
        len("row_sizes", self.row_sizes.len(), self.heads * self.rows)?;
        len("column_sizes", self.column_sizes.len(), self.heads * self.columns)?;
        for (array, sizes, each) in
            [("row_sizes", self.row_sizes, self.rows), ("column_sizes", self.column_sizes, self.columns)]
        {
            if let Some(at) = sizes.iter().position(|&size| size < 0) {
                return Err(SparseError::Size { array, at, size: sizes[at] });
            }
            let sum = |head: usize| sizes[head * each..][..each].iter().map(|&size| i64::from(size)).sum::<i64>();
            let want = sum(0);
            count(array, usize::try_from(want).unwrap_or(usize::MAX))?;
            if let Some(head) = (1..self.heads).find(|&head| sum(head) != want) {
                return Err(SparseError::Sum { array, head, sum: sum(head), want });
            }
        }
        Ok(())
    }

    fn row(&self, head: usize, row: usize) -> &[bool] {
        &self.attends[(head * self.rows + row) * self.columns..][..self.columns]
    }
    fn row_sizes(&self, head: usize) -> &[i32] {
        &self.row_sizes[head * self.rows..][..self.rows]
    }
    fn column_sizes(&self, head: usize) -> &[i32] {
        &self.column_sizes[head * self.columns..][..self.columns]
    }
}

/// The greatest common divisor of sizes; 1 where all are 0.
fn divisor(sizes: &[i32]) -> usize {
    let gcd = |mut a: u32, mut b: u32| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    sizes.iter().fold(0, |all, &size| gcd(all, size.unsigned_abs())).max(1) as usize
}

/// Lists of equal parts, whose size divides all block sizes.
pub(super) fn lists(blocks: &VariableBlocks<'_>) -> Result<BlockLists, SparseError> {
    blocks.check()?;
    let part = [divisor(blocks.row_sizes), divisor(blocks.column_sizes)];
    let mut lists = BlockLists::new(part, blocks.heads)?;
    for head in 0..blocks.heads {
        let parts: Vec<i32> = blocks.column_sizes(head).iter().map(|size| size / part[1] as i32).collect();
        let begins: Vec<i32> = parts
            .iter()
            .scan(0, |end, n| {
                *end += n;
                Some(*end - n)
            })
            .collect();
        for (row, size) in blocks.row_sizes(head).iter().enumerate() {
            let rows = *size as usize / part[0];
            if rows == 0 {
                continue;
            }
            let runs = columns(blocks.row(head, row)).map(|column| column as usize);
            lists.push_row(head, runs.flat_map(|column| begins[column]..begins[column] + parts[column]))?;
            (1..rows).for_each(|_| lists.repeat_row(head));
        }
    }
    lists.end_request()?;
    Ok(lists)
}

/// Lists of blocks of a given size, with masks where they cross the borders of the request's blocks.
pub(crate) fn masked_lists(blocks: &VariableBlocks<'_>, block: [usize; 2]) -> Result<BlockLists, SparseError> {
    blocks.check()?;
    let mut lists = BlockLists::new(block, blocks.heads)?;
    let [queries, keys] = block;
    for head in 0..blocks.heads {
        let row_of = spread(blocks.row_sizes(head));
        let column_of = spread(blocks.column_sizes(head));
        let mut listed: Vec<usize> = Vec::new();
        for run in row_of.chunks(queries) {
            let mut rows = run.to_vec();
            rows.dedup();
            let any = |&column: &usize| rows.iter().any(|&row| blocks.row(head, row)[column]);
            listed.clear();
            listed.extend(
                column_of.chunks(keys).enumerate().filter(|(_, keys)| keys.iter().any(any)).map(|(block, _)| block),
            );
            lists.push_row(head, listed.iter().map(|&block| block as i32))?; // fewer than there are keys
            let attends = |query: usize, key: usize| match (run.get(query), column_of.get(key)) {
                (Some(&row), Some(&column)) => blocks.row(head, row)[column],
                _ => false,
            };
            let pairs = (0..queries).flat_map(|query| {
                listed.iter().flat_map(move |block| (block * keys..(block + 1) * keys).map(move |key| (query, key)))
            });
            lists.push_mask(pairs.map(|(query, key)| attends(query, key)));
        }
    }
    lists.end_request()?;
    Ok(lists)
}

/// For each query (or key), the index of its block.
fn spread(sizes: &[i32]) -> Vec<usize> {
    sizes.iter().enumerate().flat_map(|(block, size)| std::iter::repeat_n(block, *size as usize)).collect()
}
