//! Errors in block-sparse matrices.

/// A malformed sparse matrix: which array, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum SparseError {
    /// A block without queries or keys, or too large.
    #[error("blocks of {queries} queries and {keys} keys; both are at least 1, and below 2^30")]
    Block { queries: usize, keys: usize },
    /// An array of the wrong length.
    #[error("`{array}` has {len} values; it takes {want}")]
    Len { array: &'static str, len: usize, want: usize },
    /// A prefix sum that does not begin at 0.
    #[error("`indptr` begins with {first}; it begins with 0")]
    Start { first: i32 },
    /// A prefix sum that falls.
    #[error("`indptr` falls from {before} to {value} at row {row}")]
    Falls { row: usize, before: i32, value: i32 },
    /// A prefix sum whose end is not the length of its array.
    #[error("`indptr` ends with {last}; `indices` has {len} values")]
    End { last: i32, len: usize },
    /// A column outside of the matrix.
    #[error("row {row} names block {block}; there are blocks 0 to {}", .columns.saturating_sub(1))]
    Column { row: usize, block: i32, columns: usize },
    /// A block listed twice in a row: its keys would count twice.
    #[error("row {row} names block {block} twice")]
    Twice { row: usize, block: i32 },
    /// Requests, or matrices of a request, that differ in size.
    #[error("request {request} has {got} {what}, the first has {want}")]
    Differs { request: usize, what: &'static str, got: usize, want: usize },
    /// A negative size.
    #[error("`{array}` has the size {size} at {at}; sizes are not negative")]
    Size { array: &'static str, at: usize, size: i32 },
    /// Heads whose blocks do not cover the same number of queries or keys.
    #[error("`{array}` of head {head} adds up to {sum}, that of head 0 to {want}")]
    Sum { array: &'static str, head: usize, sum: i64, want: i64 },
    /// More than an `i32` counts.
    #[error("{count} {what}; there may be at most 2147483647")]
    TooMany { what: &'static str, count: usize },
    /// No request is given.
    #[error("no request")]
    Empty,
}

/// A count as an `i32`.
pub(super) fn count(what: &'static str, count: usize) -> Result<i32, SparseError> {
    i32::try_from(count).map_err(|_| SparseError::TooMany { what, count })
}
