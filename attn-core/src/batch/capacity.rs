//! The capacity of a plan: an upper bound of its batches.

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

    /// Upper bound of the entries of a page table; 0 for ragged keys.
    #[must_use]
    pub fn page_entries(&self) -> u64 {
        let Some(PagePool { page_size, .. }) = self.pages else { return 0 };
        sum_of_ceils(self.kv_tokens.into(), self.runs(), u64::from(page_size).max(1))
    }

    /// Upper bound of the runs of keys, each of which may end in a partly filled page: one for each request and level.
    fn runs(&self) -> u64 {
        u64::from(self.requests) * u64::from(self.levels.max(1))
    }

    /// Upper bound of the [segments](Layout::segments) of a cascade: each has at least one key, and those of a request
    /// are disjoint.
    pub(crate) fn segments(&self) -> u64 {
        self.runs().min(self.kv_tokens.into())
    }

    /// Upper bound of the blocks of `block_keys` keys in all segments; a segment counts once for each of up to
    /// `requests` requests that has it.
    pub(crate) fn blocks_of_segments(&self, requests: u64, block_keys: u32) -> u64 {
        sum_of_ceils(self.kv_tokens.into(), requests * u64::from(self.levels.max(1)), u64::from(block_keys).max(1))
    }

    /// Upper bound of the keys of a batch without levels, where ragged keys are contiguous.
    #[must_use]
    pub fn flat_kv_tokens(&self) -> u32 {
        self.kv_tokens.min(self.ragged_tokens().unwrap_or(self.kv_tokens))
    }

    /// Tokens of ragged k and v.
    fn ragged_tokens(&self) -> Option<u32> {
        self.pages.is_none().then(|| self.kv_memory_tokens.unwrap_or(self.kv_tokens))
    }

    /// Upper bound of the query tiles of `tile_rows` PackGQA rows; a query has `group` rows. With `run`, a tile has
    /// rows of a single run of `run` queries.
    #[must_use]
    pub fn tiles(&self, group: u32, tile_rows: u32, run: Option<u64>) -> u64 {
        tiles(self.qo_tokens.into(), self.requests.into(), group.into(), u64::from(tile_rows).max(1), run)
    }

    /// Upper bound of the blocks of `block_keys` keys that the tiles of [`BatchCapacity::tiles`] attend to; a block
    /// counts once for each tile.
    #[must_use]
    pub fn blocks(&self, group: u32, tile_rows: u32, run: Option<u64>, block_keys: u32) -> u64 {
        let queries = self.qo_len.min(self.qo_tokens);
        let of_a_request = tiles(queries.into(), 1, group.into(), u64::from(tile_rows).max(1), run);
        let (keys, block) = (u64::from(self.kv_tokens), u64::from(block_keys).max(1));
        let by_request = of_a_request.saturating_mul(sum_of_ceils(keys, self.requests.into(), block));
        by_request.min(self.tiles(group, tile_rows, run).saturating_mul(keys.div_ceil(block)))
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
            ("levels", layout.level_count(), self.levels.max(1)),
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

/// Upper bound of the sum of `ceil(n / of)` over up to `parts` numbers `n` whose sum is `total`.
fn sum_of_ceils(total: u64, parts: u64, of: u64) -> u64 {
    (total + parts.min(total) * (of - 1)) / of
}

/// Upper bound of the tiles of up to `requests` requests with `queries` queries in all. The arguments except `run` are
/// below 2^32.
fn tiles(queries: u64, requests: u64, group: u64, tile_rows: u64, run: Option<u64>) -> u64 {
    let requests = requests.min(queries);
    let by_query = queries.saturating_mul(group.div_ceil(tile_rows));
    let by_rows = match run.map(|run| run.max(1)) {
        None => queries.saturating_mul(group).saturating_add(requests * (tile_rows - 1)) / tile_rows,
        Some(run) => {
            (queries / run + requests).saturating_mul(run.min(queries).saturating_mul(group).div_ceil(tile_rows))
        }
    };
    by_query.min(by_rows)
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

    /// Pages are the most where each request has one key in its last page.
    #[test]
    fn bounds_hold_for_requests_of_any_length() {
        for (requests, page_size) in [1u32, 3, 16, 64, 200].into_iter().flat_map(|n| [1u32, 5, 16].map(|p| (n, p))) {
            for len in [0, 1, page_size, page_size + 1, 3 * page_size + 1, 700] {
                let lens: Vec<u32> = (0..requests).map(|request| if request % 7 == 6 { 0 } else { len }).collect();
                let used = |of: u32| lens.iter().map(|len| u64::from(len.div_ceil(of))).sum::<u64>();
                let keys = lens.iter().sum();
                let capacity = BatchCapacity::decode(requests, keys).in_pages(page_size, 1 << 20);
                let (entries, blocks) = (capacity.page_entries(), capacity.blocks(4, 4, None, page_size));
                let name = format!("{requests} requests of {len} keys in pages of {page_size}");
                assert!(entries >= used(page_size) && blocks >= used(page_size), "{name}: {entries} {blocks}");
                // no more than one page or block a request beside the keys that fill some
                let most = u64::from(keys / page_size) + u64::from(requests);
                assert!(entries <= most && blocks <= most, "{name}: {entries} {blocks}");
            }
        }
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
