//! Segments of keys as kernels read them.

use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

use crate::batch::{Layout, Segment};

/// A segment of keys, for the kernel that preprocesses all keys.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, CudaStruct)]
pub struct KvSegment {
    /// The first request that has the keys.
    pub request: i32,
    /// Logical position of the first key.
    pub kv_begin: i32,
    /// Number of keys.
    pub keys: i32,
    /// Memory index of the first key: a token of ragged keys, or an entry of the page table.
    pub memory: i32,
    /// Index of the first key among preprocessed keys.
    pub pass: i32,
    /// First packed key token of `request`, as in the coordinates of a key.
    pub kv_token: i32,
    /// Keys of `request`, over all of its segments.
    pub kv_len: i32,
    #[doc(hidden)]
    pub _pad: i32,
}

/// In place of a segment's number: a request without keys has none.
pub(super) const NO_KEYS: u32 = u32::MAX;

impl KvSegment {
    /// Number of segments of a batch; without levels each request is one.
    #[must_use]
    pub fn count(layout: &Layout) -> usize {
        if layout.has_levels() { layout.segments().len() } else { layout.batch() }
    }

    /// A segment of a batch by its number.
    pub(super) fn at(layout: &Layout, index: usize) -> Self {
        if layout.has_levels() { Self::of(layout, &layout.segments()[index]) } else { Self::of_request(layout, index) }
    }

    /// Where the first key is: its position, its memory index, and its index among preprocessed keys.
    pub(super) fn first_key(&self) -> (i32, i32, i32) {
        (self.kv_begin, self.memory, self.pass)
    }

    /// All keys of a request without levels.
    pub(super) fn of_request(layout: &Layout, request: usize) -> Self {
        let (kv_token, kv_len) = (layout.kv_indptr()[request], layout.kv_len(request) as i32);
        let memory = layout.pages().map_or(kv_token, |pages| pages.indptr()[request]);
        KvSegment { request: request as i32, keys: kv_len, memory, pass: kv_token, kv_token, kv_len, ..Self::default() }
    }

    pub(super) fn of(layout: &Layout, segment: &Segment) -> Self {
        let &Segment { first_request, kv_begin, kv_len, memory, pass, .. } = segment;
        KvSegment { kv_begin, keys: kv_len, memory, pass, ..Self::of_request(layout, first_request) }
    }
}
