//! Runs of keys that several requests may share.

use super::{Layout, Pages};

/// The keys of one group of one level of a cascade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The level, from 0: the outermost.
    pub level: usize,
    /// The first request of the group.
    pub first_request: usize,
    /// Requests of the group, those without queries among them: at least 1.
    pub requests: usize,
    /// Logical position of the first key: how many keys every request of the group has before it.
    pub kv_begin: i32,
    /// Keys, at least 1.
    pub kv_len: i32,
    /// Where they begin in memory: a token of ragged keys, or an entry of [`Pages::indices`].
    pub memory: i32,
    /// Keys of the segments before: where rewritten keys go.
    pub pass: i32,
}

/// The segments of a cascade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels {
    /// Levels.
    pub(super) count: usize,
    /// Level by level, group by group.
    pub(super) segments: Vec<Segment>,
    /// `[requests][count]`: a segment, or -1 where the group has no keys.
    pub(super) of_request: Vec<i32>,
    /// Tokens that ragged tensors must have.
    pub(super) tokens: i32,
}

impl Layout {
    /// The runs of keys of a cascade, level by level, and group by group: those of groups that have keys and requests. None without levels.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        self.levels.as_ref().map_or(&[], |levels| &levels.segments)
    }

    /// Whether keys are in levels.
    #[must_use]
    pub fn has_levels(&self) -> bool {
        self.levels.is_some()
    }

    /// Levels of a cascade, with those in which nobody has keys; 1 without levels.
    #[must_use]
    pub fn level_count(&self) -> usize {
        self.levels.as_ref().map_or(1, |levels| levels.count)
    }

    /// The segments that the keys of a request are in, one after the other. None without levels.
    pub fn segments_of(&self, request: usize) -> impl DoubleEndedIterator<Item = (usize, &Segment)> {
        let levels = self.levels.iter();
        levels.flat_map(move |levels| {
            let of_request = &levels.of_request[request * levels.count..][..levels.count];
            let there = of_request.iter().filter_map(|&segment| usize::try_from(segment).ok());
            there.map(|segment| (segment, &levels.segments[segment]))
        })
    }

    /// The segment that a key of a request is in. `None` without levels, and past the last key.
    #[must_use]
    pub fn segment_at(&self, request: usize, key: usize) -> Option<&Segment> {
        let ends_after = |segment: &&Segment| key < (segment.kv_begin + segment.kv_len) as usize;
        self.segments_of(request).map(|(_, segment)| segment).find(ends_after)
    }

    /// Tokens that ragged k and v must have: all keys, but in a cascade the end of what its levels name.
    #[must_use]
    pub fn kv_memory_tokens(&self) -> usize {
        self.levels.as_ref().map_or(self.kv_tokens(), |levels| levels.tokens as usize)
    }

    /// The same batch without levels: a table of pages with all pages of a request in a row. `None` where there is no such table: where
    /// a level before the last of a request does not fill its pages, or ragged keys do not lie as a batch without levels has them.
    #[must_use]
    pub fn flattened(&self) -> Option<Layout> {
        if !self.has_levels() {
            return Some(self.clone());
        }
        let pages = match &self.pages {
            None => {
                self.lies_flat().then_some(())?;
                None
            }
            Some(pages) => Some(self.flat_pages(pages)?),
        };
        let (qo_indptr, kv_indptr) = (self.qo_indptr.clone(), self.kv_indptr.clone());
        Some(Layout { qo_indptr, kv_indptr, pages, levels: None })
    }

    /// The same lengths, of keys that are wherever they are: for work that names keys by their positions alone.
    pub(crate) fn positions(&self) -> Layout {
        let (qo_indptr, kv_indptr) = (self.qo_indptr.clone(), self.kv_indptr.clone());
        Layout { qo_indptr, kv_indptr, pages: None, levels: None }
    }

    /// Whether ragged keys of all requests follow each other, from token 0 on.
    fn lies_flat(&self) -> bool {
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
                let (first, count) = (segment.memory as usize, (segment.kv_len as u32).div_ceil(table.page_size));
                indices.extend_from_slice(&table.indices[first..first + count as usize]);
            }
            // no more pages than keys
            indptr.push(indices.len() as i32);
        }
        Some(Pages { indptr, indices, ..*table })
    }
}
