//! Segments: runs of keys that several requests may share.

use std::ops::Range;

use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

/// A run of keys that neighbouring requests share: the keys of a group in a level of a cascade. Without levels, all
/// keys of a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, CudaStruct)]
pub struct KvSegment {
    /// The first request that has the keys.
    pub request: i32,
    /// Requests that have the keys, including those without queries; at least 1.
    pub requests: i32,
    /// Position of the first key: the number of keys that each of the requests has before it.
    pub kv_begin: i32,
    /// Number of keys; at least 1 in a cascade.
    pub keys: i32,
    /// Memory index of the first key: a token of ragged keys, or an entry of
    /// [`Pages::indices`](super::Pages::indices).
    pub memory: i32,
    /// Index of the first key among preprocessed keys: the keys of the segments before it.
    pub pass: i32,
    /// First packed key token of `request`, as in the coordinates of a key.
    pub kv_token: i32,
    /// Keys of `request`, over all of its segments.
    pub kv_len: i32,
}

impl KvSegment {
    /// The requests that have the keys.
    #[must_use]
    pub fn requests(&self) -> Range<usize> {
        self.request as usize..(self.request + self.requests) as usize
    }
}

/// The segments of a cascade, and those of each request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CascadeSegments {
    /// Number of levels.
    pub(super) count: usize,
    /// The segments, by level and group.
    pub(super) segments: Vec<KvSegment>,
    /// `[requests][count]` segment numbers; -1 where the group has no keys.
    pub(super) of_request: Vec<i32>,
    /// The least number of tokens of ragged k and v.
    pub(super) tokens: i32,
}
