//! The capacity of a plan: an upper bound of its batches.

mod bounds;

use super::{description::Batch, error::BatchError, layout::Layout, layout::Pages};
use crate::{lang::Dims, spec::Heads};

/// An upper bound of the batches that one plan may be given. An engine knows it beforehand; the grids and memory of a
/// plan are sized for it, so captured graphs stay valid when the batch changes.
///
/// ```
/// use attn_core::batch::BatchCapacity;
///
/// // 64 requests that decode, over a pool of 4096 pages of 16 keys
/// let capacity = BatchCapacity::decode(64, 4096 * 16).in_pages(16, 4096);
/// assert_eq!((capacity.qo_len, capacity.qo_tokens), (1, 64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchCapacity {
    /// Requests, including those without queries.
    pub requests: u32,
    /// Queries of one request.
    pub qo_len: u32,
    /// Queries of all requests.
    pub qo_tokens: u32,
    /// Keys of all requests. A key that several requests share counts once for each.
    pub kv_tokens: u32,
    /// The pool of pages; `None` for ragged keys.
    pub pages: Option<PagePool>,
    /// Levels of a cascade ([`Batch::cascade`](super::Batch::cascade)). With 1, only batches without levels fit; a
    /// cascade must be flattened first ([`Layout::flattened`]).
    pub levels: u32,
    /// Tokens of ragged k and v, if they differ from `kv_tokens`: levels may name tokens in any order, and requests
    /// share some.
    pub kv_memory_tokens: Option<u32>,
}

/// The dimensions of a pool of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PagePool {
    /// Keys per page.
    pub page_size: u32,
    /// Number of pages.
    pub num_pages: u32,
}

impl BatchCapacity {
    /// Capacity for `qo_tokens` queries, distributed in any way over `requests` requests, and for `kv_tokens` ragged
    /// keys.
    #[must_use]
    pub fn new(requests: u32, qo_tokens: u32, kv_tokens: u32) -> Self {
        BatchCapacity {
            requests,
            qo_len: qo_tokens,
            qo_tokens,
            kv_tokens,
            pages: None,
            levels: 1,
            kv_memory_tokens: None,
        }
    }

    /// Capacity for `requests` requests of at most one query each, with `kv_tokens` ragged keys in all.
    #[must_use]
    pub fn decode(requests: u32, kv_tokens: u32) -> Self {
        BatchCapacity { qo_len: 1, ..Self::new(requests, requests, kv_tokens) }
    }

    /// The same with keys in pages of a pool.
    #[must_use]
    pub fn in_pages(self, page_size: u32, num_pages: u32) -> Self {
        BatchCapacity { pages: Some(PagePool { page_size, num_pages }), ..self }
    }

    /// The same with k and v of `kv_memory_tokens` tokens.
    #[must_use]
    pub fn in_tokens(self, kv_memory_tokens: u32) -> Self {
        BatchCapacity { kv_memory_tokens: Some(kv_memory_tokens), ..self }
    }

    /// The same for cascades of up to `levels` levels, and for batches without levels. A plan then runs levels where
    /// that is predicted to be faster, and always launches a mixed kernel. Its workspace holds a partial state (O, LSE)
    /// of every row in every level.
    ///
    /// ```
    /// use attn_core::batch::BatchCapacity;
    ///
    /// // level 0: a prompt that all share; level 1: examples of each group; level 2: the text of each request.
    /// // Keys of the prompt count once for each request.
    /// let capacity = BatchCapacity::decode(64, 64 * 4096).in_pages(16, 4096).in_levels(3);
    /// assert_eq!(capacity.levels, 3);
    /// ```
    #[must_use]
    pub fn in_levels(self, levels: u32) -> Self {
        BatchCapacity { levels, ..self }
    }

    /// The dimensions of shapes of parameter tensors that have room for every batch.
    #[must_use]
    pub fn dims(&self, heads: Heads) -> Dims {
        Dims {
            batch: Some(self.requests.into()),
            qo_tokens: Some(self.qo_tokens.into()),
            kv_tokens: Some(self.kv_tokens.into()),
            ..heads.dims()
        }
    }

    /// The same for `requests` requests with as many queries each, and the same number of keys in all.
    #[must_use]
    pub fn with_requests(self, requests: u32) -> Self {
        let qo_tokens = requests.saturating_mul(self.qo_len).min(self.qo_tokens);
        BatchCapacity { requests, qo_tokens, qo_len: self.qo_len.min(qo_tokens), ..self }
    }

    /// The capacity of exactly this batch.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        // a layout counts in i32
        BatchCapacity {
            requests: layout.batch() as u32,
            qo_len: layout.max_qo_len() as u32,
            qo_tokens: layout.qo_tokens() as u32,
            kv_tokens: layout.kv_tokens() as u32,
            pages: (layout.pages()).map(|p| PagePool { page_size: p.page_size(), num_pages: p.min_pool() }),
            levels: layout.level_count() as u32,
            kv_memory_tokens: (layout.has_levels() && layout.pages().is_none())
                .then_some(layout.kv_memory_tokens() as u32),
        }
    }

    /// Levels of a batch; one without levels counts as one.
    fn level_count(&self) -> u32 {
        self.levels.max(1)
    }

    /// Tokens of ragged k and v.
    fn ragged_tokens(&self) -> Option<u32> {
        self.pages.is_none().then(|| self.kv_memory_tokens.unwrap_or(self.kv_tokens))
    }

    /// Checks that a batch is within the capacity.
    ///
    /// # Errors
    ///
    /// [`BatchError::Capacity`] names the count that is too large; [`BatchError::OtherKeys`] is for pages in place of
    /// ragged keys or the reverse, and for another page size; [`BatchError::LevelsInCapacity`] for a cascade where the
    /// capacity has no levels.
    pub fn check(&self, layout: &Layout) -> Result<(), BatchError> {
        if layout.has_levels() && self.levels <= 1 {
            return Err(BatchError::LevelsInCapacity);
        }
        let page_size = |pages: Option<u32>| pages.map_or_else(|| "ragged".to_owned(), |n| format!("in pages of {n}"));
        let (got, want) = (layout.pages().map(Pages::page_size), self.pages.map(|pool| pool.page_size));
        if got != want {
            return Err(BatchError::OtherKeys { got: page_size(got), want: page_size(want) });
        }
        let (pool, tokens) = match layout.pages() {
            Some(pages) => (pages.min_pool() as usize, 0),
            None => (0, layout.kv_memory_tokens()),
        };
        let counts = [
            ("levels", layout.level_count(), self.level_count()),
            ("requests", layout.batch(), self.requests),
            ("queries in one request", layout.max_qo_len(), self.qo_len),
            ("queries", layout.qo_tokens(), self.qo_tokens),
            ("keys", layout.kv_tokens(), self.kv_tokens),
            ("pages in its pool, at least", pool, self.pages.map_or(0, |pool| pool.num_pages)),
            ("tokens of k and v", tokens, self.ragged_tokens().unwrap_or(0)),
        ];
        match counts.into_iter().find(|&(_, count, capacity)| count > capacity as usize) {
            Some((what, count, capacity)) => Err(BatchError::Capacity { what, count, capacity }),
            None => Ok(()),
        }
    }

    /// The layout with the greatest counts of queries, and of pages or ragged keys, within the capacity. Tensors that
    /// fit this layout fit every batch.
    ///
    /// # Errors
    ///
    /// More tokens than a batch may have, or a page size of 0.
    pub fn largest(&self) -> Result<Layout, BatchError> {
        let too_many = |array| BatchError::TooManyTokens { array, total: i32::MAX };
        let qo_tokens = i32::try_from(self.qo_tokens).map_err(|_| too_many("qo_indptr"))?;
        let kv_tokens = i32::try_from(self.kv_tokens).map_err(|_| too_many("kv_indptr"))?;
        let memory = self.ragged_tokens().map_or(Ok(kv_tokens), i32::try_from).map_err(|_| too_many("k and v"))?;
        // the layout below has the tokens in memory; keys that requests share count for each, and are checked here
        Batch::ragged(&[0, 0], &[0, kv_tokens]).validate()?;
        let (qo_indptr, kv_indptr) = ([0, qo_tokens], [0, memory]);
        let mut layout = Batch::ragged(&qo_indptr, &kv_indptr).validate()?;
        if let Some(PagePool { page_size, num_pages }) = self.pages {
            if !i32::try_from(page_size).is_ok_and(|size| size > 0) {
                return Err(BatchError::PageSize { page_size });
            }
            let (indptr, indices) = (vec![0, 0], Vec::new());
            layout.pages = Some(Pages { indptr, indices, page_size, min_pool: num_pages });
        }
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchCapacity, BatchError};
    use crate::batch::{Batch, PageTableBuf, indptr};

    fn layout(qo: &[u32], kv: &[u32]) -> crate::batch::Layout {
        let (qo, kv) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
        Batch::ragged(&qo, &kv).validate().expect("sound")
    }

    #[test]
    fn a_batch_is_within_its_own_capacity_and_not_within_a_smaller_one() {
        let batch = layout(&[3, 1, 0], &[5, 9, 0]);
        let capacity = BatchCapacity::of(&batch);
        capacity.check(&batch).expect("as large");
        type Less = fn(&mut BatchCapacity);
        let less: [(Less, &str, usize); 4] = [
            (|c| c.requests -= 1, "requests", 3),
            (|c| c.qo_len -= 1, "queries in one request", 3),
            (|c| c.qo_tokens -= 1, "queries", 4),
            (|c| c.kv_tokens -= 1, "keys", 14),
        ];
        for (make, what, count) in less {
            let mut smaller = capacity;
            make(&mut smaller);
            let error = smaller.check(&batch).expect_err(what);
            assert!(matches!(error, BatchError::Capacity { what: w, count: n, capacity: c }
                if w == what && n == count && c as usize == count - 1));
        }
        let paged = BatchCapacity { pages: None, ..capacity }.in_pages(4, 9);
        let error = paged.check(&batch).expect_err("ragged").to_string();
        assert!(error.contains("ragged") && error.contains("in pages of 4"), "{error}");
    }

    #[test]
    fn pages_are_within_the_pool_and_the_table() {
        let lens = [33, 1, 16, 0];
        let mut next = 0..;
        let table = PageTableBuf::from_lens(&lens, 16, 8, || next.next().unwrap_or(0));
        let qo = [0, 1, 2, 3, 4];
        let batch = Batch::paged(&qo, &table.table()).validate().expect("sound");
        let capacity = BatchCapacity::decode(4, 50).in_pages(16, 5);
        capacity.check(&batch).expect("5 pages");
        assert!(capacity.page_entries() >= 5);
        let error = capacity.in_pages(16, 4).check(&batch).expect_err("a page too few");
        assert!(matches!(error, BatchError::Capacity { count: 5, capacity: 4, .. }), "{error}");
        let error = capacity.in_pages(8, 5).check(&batch).expect_err("another size");
        assert!(matches!(error, BatchError::OtherKeys { .. }), "{error}");
        let largest = capacity.largest().expect("small");
        assert_eq!((largest.qo_tokens(), largest.kv_tokens()), (4, 50));
        assert_eq!(largest.pages().map(|p| (p.page_size(), p.min_pool())), Some((16, 5)));
    }

    #[test]
    fn what_is_too_large_is_refused() {
        BatchCapacity::new(1, u32::MAX, 1).largest().expect_err("queries");
        BatchCapacity::decode(1, 1 << 30).largest().expect_err("keys");
        BatchCapacity::decode(1, 1).in_pages(0, 1).largest().expect_err("page size");
    }
}
