//! Block-sparse matrices in the layout of scipy and FlashInfer.

use super::block_lists::BlockLists;
use super::error::{SparseError, count};

/// A block-sparse matrix of one request: rows are query blocks, columns are key blocks (scipy's `bsr_array`).
#[derive(Clone, Copy, Debug)]
pub struct Bsr<'a> {
    /// Queries and keys of a block: R, C.
    pub block: [usize; 2],
    /// Blocks of keys: `ceil(kv_len / C)`.
    pub columns: usize,
    /// Index into `indices` of each row's blocks, and one past the last: `rows + 1` values from 0 on.
    pub indptr: &'a [i32],
    /// The columns of each row's blocks, in any order.
    pub indices: &'a [i32],
}

/// The logits attended to within the blocks of a [`Bsr`].
#[derive(Clone, Copy, Debug)]
pub enum BsrMask<'a> {
    /// A bool per logit, block by block: (blocks, R, C), scipy's `data`.
    Bools(&'a [bool]),
    /// FlashInfer's packed masks. The mask of a row is (R, C times the blocks of the row), as little-endian bits from a
    /// whole byte on.
    Packed {
        /// The bits.
        bytes: &'a [u8],
        /// The first byte of each row, and one past the last.
        indptr: &'a [i32],
    },
}

impl Bsr<'_> {
    /// Rows of blocks.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Checks the arrays.
    ///
    /// # Errors
    ///
    /// The first [`SparseError`] found.
    pub fn check(&self) -> Result<(), SparseError> {
        check_indptr(self.indptr, self.indices.len())?;
        count("blocks of keys", self.columns)?;
        let mut seen = vec![usize::MAX; self.columns];
        for row in 0..self.rows() {
            for &block in self.row(row) {
                let of = usize::try_from(block).ok().and_then(|block| seen.get_mut(block));
                let Some(seen) = of else { return Err(SparseError::Column { row, block, columns: self.columns }) };
                if std::mem::replace(seen, row) == row {
                    return Err(SparseError::Twice { row, block });
                }
            }
        }
        Ok(())
    }

    /// The blocks of a row of a checked matrix.
    fn row(&self, row: usize) -> &[i32] {
        &self.indices[self.indptr[row] as usize..self.indptr[row + 1] as usize]
    }
}

/// Checks that a prefix sum starts at 0, never falls, and ends at `len`.
pub(crate) fn check_indptr(indptr: &[i32], len: usize) -> Result<(), SparseError> {
    let (Some(&first), Some(&last)) = (indptr.first(), indptr.last()) else {
        return Err(SparseError::Len { array: "indptr", len: 0, want: 1 });
    };
    if first != 0 {
        return Err(SparseError::Start { first });
    }
    if let Some(row) = indptr.windows(2).position(|ends| ends[0] > ends[1]) {
        return Err(SparseError::Falls { row, before: indptr[row], value: indptr[row + 1] });
    }
    if usize::try_from(last) == Ok(len) { Ok(()) } else { Err(SparseError::End { last, len }) }
}

/// The lists of all requests. Each request has one matrix, or one per KV head.
pub(super) fn lists(requests: &[&[Bsr<'_>]]) -> Result<BlockLists, SparseError> {
    let (mut lists, heads) = start(requests)?;
    for matrices in requests {
        for (head, matrix) in matrices.iter().enumerate().take(heads) {
            for row in 0..matrix.rows() {
                lists.push_row(head, matrix.row(row).iter().copied())?;
            }
        }
        lists.end_request()?;
    }
    Ok(lists)
}

/// The lists and masks of all requests.
pub(crate) fn masked_lists(requests: &[&[(Bsr<'_>, BsrMask<'_>)]]) -> Result<BlockLists, SparseError> {
    let matrices: Vec<Vec<Bsr<'_>>> =
        requests.iter().map(|request| request.iter().map(|(matrix, _)| *matrix).collect()).collect();
    let (mut lists, heads) = start(&matrices.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    for matrices in requests {
        for (head, (matrix, mask)) in matrices.iter().enumerate().take(heads) {
            check_mask(matrix, mask)?;
            let [queries, keys] = matrix.block;
            for row in 0..matrix.rows() {
                let blocks = matrix.row(row);
                lists.push_row(head, blocks.iter().copied())?;
                match mask {
                    BsrMask::Bools(bools) => {
                        let first = matrix.indptr[row] as usize;
                        let bit = |query: usize, column: usize| {
                            bools[((first + column / keys) * queries + query) * keys + column % keys]
                        };
                        lists.push_mask(
                            (0..queries)
                                .flat_map(|query| (0..blocks.len() * keys).map(move |column| (query, column)))
                                .map(|(query, column)| bit(query, column)),
                        );
                    }
                    BsrMask::Packed { bytes, indptr } => {
                        lists.push_packed_mask(
                            &bytes[indptr[row] as usize..][..(queries * blocks.len() * keys).div_ceil(8)],
                        );
                    }
                }
            }
        }
        lists.end_request()?;
    }
    Ok(lists)
}

/// Checks the matrices of all requests; returns a builder, and the number of heads with lists.
fn start(requests: &[&[Bsr<'_>]]) -> Result<(BlockLists, usize), SparseError> {
    let first = requests.first().and_then(|matrices| matrices.first()).ok_or(SparseError::Empty)?;
    let heads = requests[0].len();
    for (request, matrices) in requests.iter().enumerate() {
        let same = |what, got: usize, want: usize| {
            if got == want { Ok(()) } else { Err(SparseError::Differs { request, what, got, want }) }
        };
        same("matrices", matrices.len(), heads)?;
        for matrix in *matrices {
            same("queries a block", matrix.block[0], first.block[0])?;
            same("keys a block", matrix.block[1], first.block[1])?;
            matrix.check()?;
            let (got, want) = (matrix.rows(), matrices[0].rows());
            if got != want {
                return Err(SparseError::Differs { request, what: "rows of blocks in one of its matrices", got, want });
            }
        }
    }
    Ok((BlockLists::new(first.block, heads)?, heads))
}

fn check_mask(matrix: &Bsr<'_>, mask: &BsrMask<'_>) -> Result<(), SparseError> {
    let [queries, keys] = matrix.block;
    let len =
        |array, len: usize, want: usize| if len == want { Ok(()) } else { Err(SparseError::Len { array, len, want }) };
    match mask {
        BsrMask::Bools(bools) => len("mask", bools.len(), matrix.indices.len() * queries * keys),
        BsrMask::Packed { bytes, indptr } => {
            len("mask_indptr", indptr.len(), matrix.rows() + 1)?;
            check_indptr(indptr, bytes.len())?;
            for row in 0..matrix.rows() {
                len(
                    "packed_mask",
                    (indptr[row + 1] - indptr[row]) as usize,
                    (queries * matrix.row(row).len() * keys).div_ceil(8),
                )?;
            }
            Ok(())
        }
    }
}
