//! A batch that is known to be sound.

use super::segment::Levels;
use crate::{
    lang::{Dims, RowIndex},
    spec::Heads,
};

/// A validated batch. Lengths are in tokens, also for paged keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(crate) qo_indptr: Vec<i32>,
    pub(crate) kv_indptr: Vec<i32>,
    pub(crate) pages: Option<Pages>,
    /// `None`: every request has its keys in one run.
    pub(crate) levels: Option<Levels>,
}

/// The layout of no requests.
impl Default for Layout {
    fn default() -> Self {
        Layout { qo_indptr: vec![0], kv_indptr: vec![0], pages: None, levels: None }
    }
}

/// A validated page table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    pub(crate) indptr: Vec<i32>,
    pub(crate) indices: Vec<i32>,
    pub(crate) page_size: u32,
    pub(crate) min_pool: u32,
}

impl Layout {
    /// Requests.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.qo_indptr.len() - 1
    }
    /// The sizes that shapes of parameters are written in, for a batch of these heads.
    #[must_use]
    pub fn dims(&self, heads: Heads) -> Dims {
        let count = |n: usize| i64::try_from(n).ok();
        Dims {
            batch: count(self.batch()),
            qo_tokens: count(self.qo_tokens()),
            kv_tokens: count(self.kv_tokens()),
            ..heads.dims()
        }
    }
    /// `[batch + 1]` prefix sums of query counts.
    #[must_use]
    pub fn qo_indptr(&self) -> &[i32] {
        &self.qo_indptr
    }
    /// `[batch + 1]` prefix sums of key counts, in tokens, also for paged keys.
    #[must_use]
    pub fn kv_indptr(&self) -> &[i32] {
        &self.kv_indptr
    }
    /// The page table, if keys are paged.
    #[must_use]
    pub fn pages(&self) -> Option<&Pages> {
        self.pages.as_ref()
    }
    /// Queries of all requests.
    #[must_use]
    pub fn qo_tokens(&self) -> usize {
        self.qo_indptr[self.batch()] as usize
    }
    /// Keys of all requests.
    #[must_use]
    pub fn kv_tokens(&self) -> usize {
        self.kv_indptr[self.batch()] as usize
    }
    /// Queries of a request.
    #[must_use]
    pub fn qo_len(&self, request: usize) -> usize {
        (self.qo_indptr[request + 1] - self.qo_indptr[request]) as usize
    }
    /// Keys of a request.
    #[must_use]
    pub fn kv_len(&self, request: usize) -> usize {
        (self.kv_indptr[request + 1] - self.kv_indptr[request]) as usize
    }
    /// The index words of a row: query number `query` of a request, under a query head.
    #[must_use]
    pub fn row(&self, heads: Heads, request: usize, query: usize, qo_head: usize) -> RowIndex {
        let group = heads.group() as usize;
        crate::plan::row_index(self, heads, request, qo_head / group, query * group + qo_head % group)
    }
    /// Queries of the request that has most.
    #[must_use]
    pub fn max_qo_len(&self) -> usize {
        (0..self.batch()).map(|request| self.qo_len(request)).max().unwrap_or(0)
    }
    /// Keys of the request that has most.
    #[must_use]
    pub fn max_kv_len(&self) -> usize {
        (0..self.batch()).map(|request| self.kv_len(request)).max().unwrap_or(0)
    }
}

impl Pages {
    /// `[batch + 1]` prefix sums of page counts; zeros in a cascade, where [`Layout::segments`] say whose the pages are.
    #[must_use]
    pub fn indptr(&self) -> &[i32] {
        &self.indptr
    }
    /// Pages in the pool, request by request; in a cascade level by level, and group by group, of groups that have requests.
    #[must_use]
    pub fn indices(&self) -> &[i32] {
        &self.indices
    }
    /// Keys that a page holds.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.page_size
    }
    /// Pages that a pool must have: one more than the highest page in use.
    #[must_use]
    pub fn min_pool(&self) -> u32 {
        self.min_pool
    }
    /// Page and slot of a key of a request. The key is below the request's `kv_len`. Not for a cascade.
    #[must_use]
    pub fn locate(&self, request: usize, key: usize) -> (usize, usize) {
        self.locate_from(self.indptr[request] as usize, key)
    }
    /// Page and slot of a key, counted from the first key of the page at some entry of the table.
    #[must_use]
    pub fn locate_from(&self, entry: usize, key: usize) -> (usize, usize) {
        let size = self.page_size as usize;
        (self.indices[entry + key / size] as usize, key % size)
    }
}
