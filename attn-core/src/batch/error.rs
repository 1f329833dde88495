//! Errors of a batch.

/// Errors of a batch. Each names a value, its place, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum BatchError {
    /// An indptr is empty.
    #[error("{array} is empty; it has one element more than there are requests, so a batch of none is [0]")]
    EmptyIndptr { array: &'static str },
    /// An indptr does not start at 0.
    #[error("{array}[0] = {first}; prefix sums start at 0")]
    IndptrStart { array: &'static str, first: i32 },
    /// An indptr decreases.
    #[error("{array}[{index}] = {value} is less than {array}[{}] = {before}; prefix sums never decrease", .index - 1)]
    IndptrNotMonotone { array: &'static str, index: usize, value: i32, before: i32 },
    /// The lengths of two arrays do not fit each other.
    #[error("{array} has length {len}; {other} asks for {want}")]
    LengthMismatch { array: &'static str, len: usize, other: &'static str, want: usize },
    /// The page size is 0, or exceeds `i32::MAX`.
    #[error("page_size = {page_size}; a page holds 1 to {} keys", i32::MAX)]
    PageSize { page_size: u32 },
    /// The page indices end before the indptr does.
    #[error("page indices has length {indices}; page_indptr ends at {indptr_end}")]
    TooFewPages { indices: usize, indptr_end: i32 },
    /// A page number is outside the pool.
    #[error("page indices[{index}] = {page} is outside the pool of {num_pages} pages (0 to num_pages - 1)")]
    PageOutOfPool { index: usize, page: i32, num_pages: u32 },
    /// A last page is empty, or has more keys than a page.
    #[error(
        "last_page_len[{request}] = {last_page_len}; a request with pages has 1 to {page_size} keys in its last one \
         (give a request without keys no page)"
    )]
    LastPageLen { request: usize, last_page_len: i32, page_size: u32 },
    /// More tokens than a coordinate can count.
    #[error("{array} counts {total} tokens; at most {} are supported in a batch", super::limits::MAX_TOKENS)]
    TooManyTokens { array: &'static str, total: i32 },
    /// More keys in pages than a coordinate may count.
    #[error(
        "the keys up to request {request} are {total} in all; at most {} are supported in a batch",
        super::limits::MAX_TOKENS
    )]
    TooManyKeys { request: usize, total: i64 },
    /// A negative key count.
    #[error("kv_lens[{request}] = {kv_len}; a request has 0 keys at least")]
    KvLen { request: usize, kv_len: i32 },
    /// The pages of a request do not hold its keys.
    #[error("request {request} has {kv_len} keys, and {pages} pages of {page_size}")]
    FewPages { request: usize, pages: usize, kv_len: u32, page_size: u32 },
    /// The sum of lengths does not fit an indptr.
    #[error("the lengths up to index {index} sum to {total}; at most {} are supported", i32::MAX)]
    LengthsTooLong { index: usize, total: u64 },
    /// The batch exceeds the plan's capacity.
    #[error("the batch has {count} {what}; the plan's capacity is {capacity}. Make a plan with a larger capacity")]
    Capacity { what: &'static str, count: usize, capacity: u32 },
    /// A plan that was made for one batch is given another.
    #[error("this plan is of one batch alone; make it with a capacity, and it can be given others")]
    NoCapacity,
    /// The keys are stored in another form (ragged, or pages of another size) than the plan was made for.
    #[error("the keys of the batch are {got}; the plan was made for keys that are {want}")]
    OtherKeys {
        /// `ragged`, or `in pages of` a number of keys.
        got: String,
        want: String,
    },
    /// A page number of a block table is outside the pool.
    #[error("block_table[{request}][{index}] = {page} is outside the pool of {num_pages} pages (0 to num_pages - 1)")]
    BlockTablePage { request: usize, index: usize, page: i32, num_pages: u32 },
    /// A cascade has no level.
    #[error("a cascade of no levels has no keys; give one at least")]
    NoLevels,
    /// A cascade has both ragged and paged levels.
    #[error("level {level} is not as level 0: the levels of a cascade are all ragged, or all paged")]
    LevelsDiffer { level: usize },
    /// A level of a batch that has what only the batch has.
    #[error("it has levels or a bound of queries; give both to the batch, with all levels from the outermost")]
    NotOfLevel,
    /// An error in one level of a cascade.
    #[error("level {level}: {error}")]
    CascadeLevel {
        level: usize,
        /// The error in its arrays; requests in it are groups.
        error: Box<BatchError>,
    },
    /// A level does not cover the queries of the batch.
    #[error("qo_indptr ends at {value}; the batch has {want} queries")]
    LevelEnd {
        value: i32,
        /// The last element of the batch's `qo_indptr`.
        want: i32,
    },
    /// A group ends within a request.
    #[error("qo_indptr[{index}] = {value} lies within request {request}; a group has whole requests")]
    GroupCutsRequest {
        /// Index into the level's `qo_indptr`.
        index: usize,
        value: i32,
        request: usize,
    },
    /// The requests of a group are in several groups of the level before.
    #[error(
        "group {group} has requests of several groups of the level before (request {request} is in another than the \
         one before it)"
    )]
    NotNested {
        group: usize,
        /// The first request of the group whose group in the previous level differs from that of the request before it.
        request: usize,
    },
    /// The keys of a level begin before the first token.
    #[error("{array}[0] = {value}; the first token is 0")]
    NegativeToken { array: &'static str, value: i32 },
    /// The levels have several page sizes. Counted in pages of their greatest common divisor, the pool has more pages
    /// than an index can count.
    #[error(
        "the pool has {pages} pages of {page_size} keys, the size that goes into those of all levels; at most {} are \
         supported",
        i32::MAX
    )]
    PoolTooLarge {
        pages: u64,
        /// Keys per page: the greatest common divisor.
        page_size: u32,
    },
    /// A cascade is given to a plan whose capacity has no levels.
    #[error(
        "the batch has levels, and the plan's capacity has none: make it with `BatchCapacity::in_levels`, or give the \
         keys of each request in one run, as `Layout::flattened` does"
    )]
    LevelsInCapacity,
}
