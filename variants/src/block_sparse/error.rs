//! What can be wrong with a sparse matrix.

/// A malformed sparse matrix: which array, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// A block without queries or keys.
    #[error("blocks of {queries} queries and {keys} keys; both are at least 1, and below 2^30")]
    Block {
        /// Queries.
        queries: usize,
        /// Keys.
        keys: usize,
    },
    /// An array of another length.
    #[error("`{array}` has {len} values; it takes {want}")]
    Len {
        /// The array.
        array: &'static str,
        /// Its length.
        len: usize,
        /// What it should be.
        want: usize,
    },
    /// An array that should begin at 0.
    #[error("`indptr` begins with {first}; it begins with 0")]
    Start {
        /// What is there.
        first: i32,
    },
    /// A prefix sum that falls.
    #[error("`indptr` falls from {before} to {value} at row {row}")]
    Falls {
        /// The row of blocks.
        row: usize,
        /// Where it begins.
        before: i32,
        /// Where it ends.
        value: i32,
    },
    /// The end of a prefix sum is not the length of what it is of.
    #[error("`indptr` ends with {last}; `indices` has {len} values")]
    End {
        /// The end.
        last: i32,
        /// The length.
        len: usize,
    },
    /// A block that is not there.
    #[error("row {row} names block {block}; there are blocks 0 to {}", .columns.saturating_sub(1))]
    Column {
        /// The row of blocks.
        row: usize,
        /// What it names.
        block: i32,
        /// Blocks of keys.
        columns: usize,
    },
    /// A block that comes twice in a row, so that its keys would count twice.
    #[error("row {row} names block {block} twice")]
    Twice {
        /// The row of blocks.
        row: usize,
        /// The block.
        block: i32,
    },
    /// Requests, or KV heads, that do not go together.
    #[error("request {request} has {got} {what}, the first has {want}")]
    Differs {
        /// The request.
        request: usize,
        /// What differs.
        what: &'static str,
        /// What it has.
        got: usize,
        /// What the first has.
        want: usize,
    },
    /// A size below 0.
    #[error("`{array}` has the size {size} at {at}; sizes are not negative")]
    Size {
        /// The array.
        array: &'static str,
        /// Where.
        at: usize,
        /// The size.
        size: i32,
    },
    /// Heads whose blocks do not cover the same queries or keys.
    #[error("`{array}` of head {head} adds up to {sum}, that of head 0 to {want}")]
    Sum {
        /// The array.
        array: &'static str,
        /// The head.
        head: usize,
        /// Its sum.
        sum: i64,
        /// That of the first.
        want: i64,
    },
    /// More than an `i32` counts.
    #[error("{count} {what}; there may be at most 2147483647")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// No request.
    #[error("no request")]
    Empty,
}

/// A count as the tables have it.
pub(super) fn count(what: &'static str, count: usize) -> Result<i32, SparseError> {
    i32::try_from(count).map_err(|_| SparseError::TooMany { what, count })
}
