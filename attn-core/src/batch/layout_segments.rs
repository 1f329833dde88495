//! The segments of a cascade, and the same batch without levels.

use super::layout::{Layout, Pages};
use super::segment::KvSegment;

impl Layout {
    /// The segments of a cascade, by level and group, for groups with keys and requests. Empty without levels.
    #[must_use]
    pub fn segments(&self) -> &[KvSegment] {
        self.levels.as_ref().map_or(&[], |levels| &levels.segments)
    }

    /// Whether the batch is a cascade.
    #[must_use]
    pub fn has_levels(&self) -> bool {
        self.levels.is_some()
    }

    /// Number of levels, including those without keys; 1 without a cascade.
    #[must_use]
    pub fn level_count(&self) -> usize {
        self.levels.as_ref().map_or(1, |levels| levels.count)
    }

    /// The segments of a request's keys in order, with their numbers. Empty without levels.
    pub fn segments_of(&self, request: usize) -> impl DoubleEndedIterator<Item = (usize, &KvSegment)> {
        let levels = self.levels.iter();
        levels.flat_map(move |levels| {
            let of_request = &levels.of_request[request * levels.count..][..levels.count];
            let there = of_request.iter().filter_map(|&segment| usize::try_from(segment).ok());
            there.map(|segment| (segment, &levels.segments[segment]))
        })
    }

    /// The segments as kernels that preprocess keys read them: without levels, each request is one.
    pub(crate) fn all_segments(&self) -> impl Iterator<Item = KvSegment> + Clone {
        let requests = if self.has_levels() { 0 } else { self.batch() };
        self.segments().iter().copied().chain((0..requests).map(|request| self.whole_segment(request)))
    }

    /// Number of segments; without levels, of requests.
    pub(crate) fn segment_count(&self) -> usize {
        if self.has_levels() { self.segments().len() } else { self.batch() }
    }

    /// Number of keys that are preprocessed: those that requests share count once.
    #[must_use]
    pub fn preprocessed_keys(&self) -> i32 {
        let last = self.segments().last().map_or(0, |segment| segment.pass + segment.keys);
        if self.has_levels() { last } else { self.kv_tokens() as i32 }
    }

    /// All keys of a request without levels.
    pub(crate) fn whole_segment(&self, request: usize) -> KvSegment {
        let (kv_token, kv_len) = (self.kv_indptr[request], self.kv_len(request) as i32);
        let memory = self.pages.as_ref().map_or(kv_token, |pages| pages.indptr[request]);
        let (request, requests, kv_begin, pass) = (request as i32, 1, 0, kv_token);
        KvSegment { request, requests, kv_begin, keys: kv_len, memory, pass, kv_token, kv_len }
    }

    /// The segment of a key. `None` without levels, and past the last key.
    #[must_use]
    pub fn segment_at(&self, request: usize, key: usize) -> Option<&KvSegment> {
        let ends_after = |segment: &&KvSegment| key < (segment.kv_begin + segment.keys) as usize;
        self.segments_of(request).map(|(_, segment)| segment).find(ends_after)
    }

    /// The least number of tokens of ragged k and v: the number of keys, or in a cascade one past the last token of its
    /// levels.
    #[must_use]
    pub fn kv_memory_tokens(&self) -> usize {
        self.levels.as_ref().map_or(self.kv_tokens(), |levels| levels.tokens as usize)
    }

    /// The same batch without levels, with all pages of a request in one row of a page table. `None` if there is no
    /// such table: a segment that is not the last of its request does not fill its pages, or ragged keys are not
    /// contiguous.
    #[must_use]
    pub fn flattened(&self) -> Option<Layout> {
        if !self.has_levels() {
            return Some(self.clone());
        }
        let pages = match &self.pages {
            None => {
                self.is_contiguous().then_some(())?;
                None
            }
            Some(pages) => Some(self.flat_pages(pages)?),
        };
        let (qo_indptr, kv_indptr) = (self.qo_indptr.clone(), self.kv_indptr.clone());
        Some(Layout { qo_indptr, kv_indptr, pages, levels: None })
    }

    /// The same lengths without pages and levels, for work lists that name keys by position only.
    pub(crate) fn positions(&self) -> Layout {
        let (qo_indptr, kv_indptr) = (self.qo_indptr.clone(), self.kv_indptr.clone());
        Layout { qo_indptr, kv_indptr, pages: None, levels: None }
    }

    /// Whether the ragged keys of all requests are contiguous, from token 0 on.
    fn is_contiguous(&self) -> bool {
        (0..self.batch()).all(|request| {
            let first = self.kv_indptr[request];
            self.segments_of(request).all(|(_, segment)| segment.memory == first + segment.kv_begin)
        })
    }

    fn flat_pages(&self, table: &Pages) -> Option<Pages> {
        let size = table.page_size as i32;
        let mut indptr = vec![0];
        let mut indices = Vec::new();
        for request in 0..self.batch() {
            for (_, segment) in self.segments_of(request) {
                if segment.kv_begin % size != 0 {
                    return None;
                }
                let (first, count) = (segment.memory as usize, (segment.keys as u32).div_ceil(table.page_size));
                indices.extend_from_slice(&table.indices[first..first + count as usize]);
            }
            // there are at most as many pages as keys
            indptr.push(indices.len() as i32);
        }
        Some(Pages { indptr, indices, ..*table })
    }
}
