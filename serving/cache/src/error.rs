//! Errors of the cache.

use crate::PageId;

/// A pool has too few free pages. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{need} pages are needed, {free} are free, and {evictable} more can be evicted from the prefix tree; evict, end a \
     request, or swap one out"
)]
pub struct OutOfPages {
    /// Pages that were asked for.
    pub need: usize,
    /// Free pages.
    pub free: usize,
    /// Pages that the prefix tree alone holds and nothing protects: eviction makes them free.
    pub evictable: usize,
}

/// Why a call is refused. Nothing has changed then, unless a variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum CacheError {
    /// Too few free pages.
    #[error(transparent)]
    OutOfPages(#[from] OutOfPages),
    /// A pool that page tables cannot describe.
    #[error(
        "a pool of {count} pages of {page_size} tokens; a page has 1 to {most} tokens, and a pool at most {most} pages",
        most = i32::MAX
    )]
    PoolShape { count: usize, page_size: usize },
    /// Pages of another size.
    #[error("one pool has pages of {got} tokens, the other of {want}; a page is copied as a whole")]
    PageSizes { got: usize, want: usize },
    /// A page of another pool.
    #[error("page {page} belongs to another pool")]
    OtherPool { page: PageId },
    /// Fewer pages than the tokens fill.
    #[error("{tokens} tokens fill {want} pages; {pages} were given")]
    TooFewPages { tokens: usize, pages: usize, want: usize },
    /// A page that the tree already holds for other tokens.
    #[error("page {page} is in the prefix tree already, for other tokens; a page holds the keys of one prefix")]
    InTree { page: PageId },
    /// More tokens than the sequence has.
    #[error("{tokens} tokens were given or asked for; the sequence has {len}")]
    TooManyTokens { tokens: usize, len: usize },
    /// Tokens whose keys are not written yet, where they are needed.
    #[error(
        "{tokens} tokens of the sequence are appended and not yet written; run the step, call `commit`, then try again"
    )]
    Unwritten { tokens: usize },
    /// A page that was released is needed again.
    #[error("the page of position {position} was released; the sequence can no longer end there")]
    Released { position: usize },
    /// Tokens that were moved are asked for as a prefix.
    #[error(
        "the sequence was compacted: its tokens from position {position} on have moved, and are no prefix of its text; \
         cache a sequence before `compact`"
    )]
    Compacted { position: usize },
    /// The sequence is in host memory.
    #[error("the sequence is swapped out; swap it in first")]
    SwappedOut,
    /// The sequence is not in host memory.
    #[error("the sequence is not swapped out")]
    NotSwappedOut,
    /// A count beyond a capacity.
    #[error("{count} {what}; the capacity is {capacity}")]
    Capacity { what: &'static str, count: usize, capacity: usize },
    /// A sequence without new tokens is in a step.
    #[error("sequence {sequence} of the step has no new token; leave it out, or append first")]
    NoNewTokens { sequence: usize },
    /// A source names more new tokens than tokens.
    #[error("sequence {sequence} has {new} new tokens of {len} in all")]
    NewTokens { sequence: usize, new: usize, len: usize },
    /// The pages of a sequence do not hold its tokens.
    #[error("sequence {sequence} has {len} tokens, and {pages} pages of {page_size}")]
    ShortTable { sequence: usize, pages: usize, len: usize, page_size: usize },
    /// An entry of a table is no page of the pool.
    #[error("entry {index} of sequence {sequence} is {page}; the pool has the pages 0 to {}", .num_pages - 1)]
    PageOutOfPool { sequence: usize, index: usize, page: PageId, num_pages: usize },
    /// An invariant does not hold: a bug of this crate, which a check has found.
    #[error("an invariant of the cache is broken: {0}")]
    Broken(String),
}
