//! The layout of a batch: its arrays after validation, which the planner and the backends trust.

use super::segment::CascadeSegments;
use crate::{lang::Dims, spec::Heads};

/// A validated batch. Lengths are in tokens, for paged keys too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(crate) qo_indptr: Vec<i32>,
    pub(crate) kv_indptr: Vec<i32>,
    pub(crate) pages: Option<Pages>,
    /// `None` without a cascade: every request has its keys in one run.
    pub(crate) levels: Option<CascadeSegments>,
}

/// The layout without requests.
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
    /// The dimensions that shapes of parameter tensors are written in.
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
    /// `[batch + 1]` prefix sums of key counts in tokens, for paged keys too.
    #[must_use]
    pub fn kv_indptr(&self) -> &[i32] {
        &self.kv_indptr
    }
    /// The page table; `None` for ragged keys.
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
    /// Queries of the longest request.
    #[must_use]
    pub fn max_qo_len(&self) -> usize {
        (0..self.batch()).map(|request| self.qo_len(request)).max().unwrap_or(0)
    }
}

impl Pages {
    /// `[batch + 1]` prefix sums of page counts. They are zeros in a cascade, where [`Layout::segments`] name the
    /// pages.
    #[must_use]
    pub fn indptr(&self) -> &[i32] {
        &self.indptr
    }
    /// Page numbers in the pool, request by request; in a cascade by level and group, for groups that have requests.
    #[must_use]
    pub fn indices(&self) -> &[i32] {
        &self.indices
    }
    /// Keys per page.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.page_size
    }
    /// The least number of pages of a pool: one more than the highest page number in use.
    #[must_use]
    pub fn min_pool(&self) -> u32 {
        self.min_pool
    }
    /// Page and slot of a key of a request, for `key < kv_len`. Not for a cascade.
    #[must_use]
    pub fn locate(&self, request: usize, key: usize) -> (usize, usize) {
        self.locate_from(self.indptr[request] as usize, key)
    }
    /// Page and slot of a key, counted from the first key of the page at entry `entry` of the table.
    #[must_use]
    pub fn locate_from(&self, entry: usize, key: usize) -> (usize, usize) {
        let size = self.page_size as usize;
        (self.indices[entry + key / size] as usize, key % size)
    }
}
