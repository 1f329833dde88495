//! Segments: runs of keys that several requests may share.

/// The keys of one group in one level of a cascade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The level, from 0, the outermost.
    pub level: usize,
    /// The first request of the group.
    pub first_request: usize,
    /// Requests of the group, including those without queries; at least 1.
    pub requests: usize,
    /// Position of the first key: the number of keys that every request of the group has before it.
    pub kv_begin: i32,
    /// Keys, at least 1.
    pub kv_len: i32,
    /// Start in memory: a token of ragged keys, or an entry of [`Pages::indices`](super::Pages::indices).
    pub memory: i32,
    /// Keys of the segments before it: the offset of its preprocessed keys and values in the workspace.
    pub pass: i32,
}

/// The segments of a cascade, and those of each request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CascadeSegments {
    /// Number of levels.
    pub(super) count: usize,
    /// The segments, by level and group.
    pub(super) segments: Vec<Segment>,
    /// `[requests][count]` segment numbers; -1 where the group has no keys.
    pub(super) of_request: Vec<i32>,
    /// The least number of tokens of ragged k and v.
    pub(super) tokens: i32,
}
