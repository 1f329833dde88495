//! Where a step gets page tables from.

use crate::{PageId, Pages, Sequence};

/// A set of sequences with their pages: those of this crate, or of an engine with a page manager of its own.
///
/// ```
/// use attn_cache::{BlockSource, PageId};
///
/// struct Request {
///     blocks: Vec<PageId>,
///     tokens: usize,
///     scheduled: usize,
/// }
///
/// struct Running<'a>(&'a [Request]);
///
/// impl BlockSource for Running<'_> {
///     fn sequences(&self) -> usize {
///         self.0.len()
///     }
///     fn pages(&self, sequence: usize) -> &[PageId] {
///         &self.0[sequence].blocks
///     }
///     fn tokens(&self, sequence: usize) -> usize {
///         self.0[sequence].tokens
///     }
///     fn new_tokens(&self, sequence: usize) -> usize {
///         self.0[sequence].scheduled
///     }
/// }
/// ```
pub trait BlockSource {
    /// Sequences of the step.
    fn sequences(&self) -> usize;

    /// The page of each `page_size` tokens of a sequence, in order; more than its tokens fill are ignored.
    /// [`RELEASED`](crate::RELEASED) marks pages that masks hide.
    fn pages(&self, sequence: usize) -> &[PageId];

    /// Tokens of a sequence, the new ones included.
    fn tokens(&self, sequence: usize) -> usize;

    /// Tokens at the end of a sequence that the step writes: its queries. At least 1.
    fn new_tokens(&self, sequence: usize) -> usize;

    /// The pool of a sequence's pages, if the source knows it. A [`Step`](crate::Step) over another pool is refused.
    fn pool(&self, _sequence: usize) -> Option<&Pages> {
        None
    }

    /// A number that changes whenever the tokens of a sequence do, and that no two sequences share.
    fn version(&self, _sequence: usize) -> u64 {
        0
    }

    /// The launches that write the tokens of a sequence are enqueued. It is called for sequences whose
    /// [`version`](BlockSource::version) is that of the step that was built: tokens that came later are not written.
    fn commit_sequence(&mut self, _sequence: usize) {}

    /// The launches of the step are enqueued.
    fn commit(&mut self) {}
}

macro_rules! source_of_sequences {
    ($($sequences:ty),*) => {$(
        impl BlockSource for $sequences {
            fn sequences(&self) -> usize {
                self.len()
            }
            fn pages(&self, sequence: usize) -> &[PageId] {
                self[sequence].page_ids()
            }
            fn tokens(&self, sequence: usize) -> usize {
                self[sequence].len()
            }
            fn new_tokens(&self, sequence: usize) -> usize {
                self[sequence].new_tokens()
            }
            fn pool(&self, sequence: usize) -> Option<&Pages> {
                Some(self[sequence].pool())
            }
            fn version(&self, sequence: usize) -> u64 {
                self[sequence].version()
            }
            fn commit_sequence(&mut self, sequence: usize) {
                self[sequence].commit();
            }
        }
    )*};
}

source_of_sequences!([Sequence], [&mut Sequence]);

/// Plain tables in padded rows, as engines pass them to kernels.
#[derive(Clone, Copy, Debug)]
pub struct BlockTables<'a> {
    /// `[sequences][max_pages]` page numbers.
    pub pages: &'a [PageId],
    /// Entries per row.
    pub max_pages: usize,
    /// `[sequences]` tokens, the new ones included.
    pub tokens: &'a [usize],
    /// `[sequences]` new tokens.
    pub new_tokens: &'a [usize],
}

impl BlockSource for BlockTables<'_> {
    fn sequences(&self) -> usize {
        self.tokens.len()
    }
    fn pages(&self, sequence: usize) -> &[PageId] {
        // a table that is too short is refused by the step, as a row without pages
        let row = sequence.saturating_mul(self.max_pages);
        self.pages.get(row..row.saturating_add(self.max_pages)).unwrap_or_default()
    }
    fn tokens(&self, sequence: usize) -> usize {
        self.tokens[sequence]
    }
    fn new_tokens(&self, sequence: usize) -> usize {
        self.new_tokens.get(sequence).copied().unwrap_or(0)
    }
}
