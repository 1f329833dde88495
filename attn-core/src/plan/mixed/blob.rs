//! A mixed plan as bytes, so that a backend uploads it in one copy.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{MixedItem, MixedList, MixedMerge, MixedRoom};
use crate::{
    batch::{Layout, Segment},
    plan::{PartialBytes, PlanError},
};

/// Sections start at multiples of this many bytes.
const ALIGN: usize = 16;

/// A batch and its mixed work in one buffer.
#[derive(Clone, Debug, Default)]
pub struct MixedBlob {
    /// The sections, with padding of zeros between them.
    pub bytes: Vec<u8>,
    /// Where they are.
    pub offsets: MixedOffsets,
}

/// Byte ranges of the sections of a [`MixedBlob`]; starts are 16-byte aligned, and no two overlap. Every section is an array of `i32`, or of
/// structs of `i32`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MixedOffsets {
    /// `[batch + 1]` i32.
    pub qo_indptr: Range<usize>,
    /// `[batch + 1]` i32: sums of the keys of requests, over all of their segments.
    pub kv_indptr: Range<usize>,
    /// `[qo_tokens]` i32: the request of each query. Empty where there is no room for levels.
    pub request_of_query: Range<usize>,
    /// `[segments + 1]` i32: prefix sums of the keys of segments, for a pass over all keys.
    pub segment_ends: Range<usize>,
    /// [`MixedSegment`]s: those of the layout; without levels one a request.
    pub segments: Range<usize>,
    /// [`MixedStart`]s, one for each worker of the decode part.
    pub workers: Range<usize>,
    /// [`MixedItem`]s of the decode part.
    pub decode: Range<usize>,
    /// [`MixedItem`]s of the prefill part.
    pub prefill: Range<usize>,
    /// [`MixedMerge`]s.
    pub merges: Range<usize>,
    /// [`MixedList::merge_parts`]: i32.
    pub merge_parts: Range<usize>,
    /// [`Pages::indices`](crate::batch::Pages::indices): i32; empty for ragged keys.
    pub page_indices: Range<usize>,
    /// Bytes in all, a multiple of 16.
    pub total: usize,
}

/// What a worker of the decode part is told, in one piece, so that it waits for memory once before it knows where its keys are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MixedStart {
    /// Its first item.
    pub first: i32,
    /// One past its last item.
    pub end: i32,
    #[doc(hidden)]
    pub _pad: [i32; 2],
    /// The first item itself; zeros where there is none.
    pub item: MixedItem,
}

/// A run of keys, for a pass over all keys.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MixedSegment {
    /// The first request that has them.
    pub request: i32,
    /// Logical position of the first key.
    pub kv_begin: i32,
    /// Keys.
    pub keys: i32,
    /// Where the first is in memory: a token of ragged keys, or an entry of the page table.
    pub memory: i32,
    /// Its place among rewritten keys.
    pub pass: i32,
    /// First packed key token of `request`, as index words count.
    pub kv_token: i32,
    /// Keys of `request`, over all of its segments.
    pub kv_len: i32,
    #[doc(hidden)]
    pub _pad: i32,
}

/// How many of each there are.
struct Counts {
    requests: usize,
    /// Query tokens, where requests may share keys.
    queries: usize,
    segments: usize,
    pages: usize,
    workers: usize,
    decode: usize,
    prefill: usize,
    merges: usize,
    merge_parts: usize,
}

impl MixedOffsets {
    /// The sections of a batch and its work.
    #[must_use]
    pub fn of(layout: &Layout, work: &MixedList) -> Self {
        Self::counted(&Counts {
            requests: layout.batch(),
            queries: if layout.has_levels() { layout.qo_tokens() } else { 0 },
            segments: if layout.has_levels() { layout.segments().len() } else { layout.batch() },
            pages: layout.pages().map_or(0, |pages| pages.indices().len()),
            workers: work.workers.len().saturating_sub(1),
            decode: work.decode.len(),
            prefill: work.prefill.len(),
            merges: work.merges.len(),
            merge_parts: work.merge_parts.len(),
        })
    }

    /// The sections of every batch that there is room for: where they begin, and the most that they hold.
    #[must_use]
    pub fn within(room: &MixedRoom) -> Self {
        let &MixedRoom { requests, queries, segments, decode, workers, prefill, merges, merge_parts, .. } = room;
        let pages = room.pages.unwrap_or(0);
        Self::counted(&Counts { requests, queries, segments, pages, workers, decode, prefill, merges, merge_parts })
    }

    fn counted(counts: &Counts) -> Self {
        let mut end = 0usize;
        let mut section = |bytes: usize| {
            let start = end.next_multiple_of(ALIGN);
            end = start + bytes;
            start..end
        };
        let int = size_of::<i32>();
        // pages come last: what a table has room for, and this batch does not use, is then not uploaded
        MixedOffsets {
            qo_indptr: section((counts.requests + 1) * int),
            kv_indptr: section((counts.requests + 1) * int),
            request_of_query: section(counts.queries * int),
            segment_ends: section((counts.segments + 1) * int),
            segments: section(counts.segments * size_of::<MixedSegment>()),
            workers: section(counts.workers * size_of::<MixedStart>()),
            decode: section(counts.decode * size_of::<MixedItem>()),
            prefill: section(counts.prefill * size_of::<MixedItem>()),
            merges: section(counts.merges * size_of::<MixedMerge>()),
            merge_parts: section(counts.merge_parts * int),
            page_indices: section(counts.pages * int),
            total: end.next_multiple_of(ALIGN),
        }
    }
}

impl MixedBlob {
    /// Packs a batch and its work.
    #[must_use]
    pub fn pack(layout: &Layout, work: &MixedList) -> Self {
        let mut blob = MixedBlob::default();
        blob.repack(layout, work);
        blob
    }

    /// Packs again, into the same memory.
    pub fn repack(&mut self, layout: &Layout, work: &MixedList) {
        self.offsets = MixedOffsets::of(layout, work);
        self.fill(layout, work);
    }

    /// As [`MixedBlob::repack`], into sections that have room for more, so that they stay where they are. The rest of each says that there is
    /// nothing to do: requests and segments without queries and keys, workers without items, items without rows, merges without parts. Bytes end with
    /// the pages in use.
    ///
    /// # Errors
    ///
    /// [`PlanError::Room`] where there is not enough of it, [`PlanError::Levels`] for a cascade where there is none for levels; nothing is changed then.
    pub fn repack_within(&mut self, room: &MixedRoom, layout: &Layout, work: &MixedList) -> Result<(), PlanError> {
        room.check(layout, work)?;
        self.offsets = MixedOffsets::within(room);
        self.fill(layout, work);
        Ok(())
    }

    /// Zeros, and in them everything.
    fn fill(&mut self, layout: &Layout, work: &MixedList) {
        let offsets = self.offsets.clone();
        self.bytes.clear();
        self.bytes.resize(offsets.page_indices.start, 0);
        self.sums(&offsets.qo_indptr, layout.qo_indptr());
        self.sums(&offsets.kv_indptr, layout.kv_indptr());
        if !offsets.request_of_query.is_empty() {
            let requests = layout.qo_indptr().windows(2).enumerate();
            let of_query = requests.flat_map(|(request, ends)| (ends[0]..ends[1]).map(move |_| request as i32));
            of_query.enumerate().for_each(|(i, request)| self.put_one(offsets.request_of_query.start, i, &request));
        }
        self.segments(layout);
        for (worker, ends) in work.workers.windows(2).enumerate() {
            let item = if ends[0] < ends[1] { work.decode[ends[0] as usize] } else { MixedItem::default() };
            let start = MixedStart { first: ends[0], end: ends[1], _pad: [0; 2], item };
            self.put_one(offsets.workers.start, worker, &start);
        }
        self.put(offsets.decode.start, bytemuck::cast_slice(&work.decode));
        self.put(offsets.prefill.start, bytemuck::cast_slice(&work.prefill));
        self.put(offsets.merges.start, bytemuck::cast_slice(&work.merges));
        self.put(offsets.merge_parts.start, bytemuck::cast_slice(&work.merge_parts));
        if let Some(pages) = layout.pages() {
            // most of all bytes, and the last: not zeroed before
            self.bytes.extend_from_slice(bytemuck::cast_slice(pages.indices()));
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }

    fn segments(&mut self, layout: &Layout) {
        let (ends, at) = (self.offsets.segment_ends.clone(), self.offsets.segments.start);
        if !layout.has_levels() {
            self.sums(&ends, layout.kv_indptr());
            for request in 0..layout.batch() {
                self.put_one(at, request, &MixedSegment::of_request(layout, request));
            }
            return;
        }
        let mut end = 0;
        self.put_one(ends.start, 0, &end);
        for (i, segment) in layout.segments().iter().enumerate() {
            end += segment.kv_len;
            self.put_one(ends.start, i + 1, &end);
            self.put_one(at, i, &MixedSegment::of(layout, segment));
        }
        self.stay(ends.start + (layout.segments().len() + 1) * size_of::<i32>()..ends.end, end);
    }

    /// Prefix sums: those past the last stay where they are.
    fn sums(&mut self, at: &Range<usize>, sums: &[i32]) {
        self.put(at.start, bytemuck::cast_slice(sums));
        if let Some(&last) = sums.last() {
            self.stay(at.start + size_of_val(sums)..at.end, last);
        }
    }

    /// Prefix sums past the last.
    fn stay(&mut self, rest: Range<usize>, last: i32) {
        for sum in self.bytes[rest].chunks_exact_mut(size_of::<i32>()) {
            sum.copy_from_slice(bytemuck::bytes_of(&last));
        }
    }

    fn put_one<T: Pod>(&mut self, section: usize, index: usize, value: &T) {
        self.put(section + index * size_of::<T>(), bytemuck::bytes_of(value));
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl MixedSegment {
    /// The keys of a request without levels.
    pub(super) fn of_request(layout: &Layout, request: usize) -> Self {
        let (kv_token, kv_len) = (layout.kv_indptr()[request], layout.kv_len(request) as i32);
        MixedSegment {
            request: request as i32,
            kv_begin: 0,
            keys: kv_len,
            memory: layout.pages().map_or(kv_token, |pages| pages.indptr()[request]),
            pass: kv_token,
            kv_token,
            kv_len,
            _pad: 0,
        }
    }

    pub(super) fn of(layout: &Layout, segment: &Segment) -> Self {
        let &Segment { first_request, kv_begin, kv_len, memory, pass, .. } = segment;
        MixedSegment {
            request: first_request as i32,
            kv_begin,
            keys: kv_len,
            memory,
            pass,
            kv_token: layout.kv_indptr()[first_request],
            kv_len: layout.kv_len(first_request) as i32,
            _pad: 0,
        }
    }
}

impl MixedList {
    /// Bytes of the buffers for partial states: `[partial_rows][kv_heads][head_dim]` f32, and `[partial_rows][kv_heads]` pairs of f32 (maximum and
    /// denominator). `head_dim` is that of values.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] when they do not fit 64 bits.
    pub fn partial_bytes(&self, kv_heads: u32, head_dim: u32) -> Result<PartialBytes, PlanError> {
        crate::plan::blob::partial_bytes(self.partial_rows.into(), 1, kv_heads, head_dim)
    }
}

impl MixedRoom {
    /// As [`MixedList::partial_bytes`], of every batch that there is room for.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] when they do not fit 64 bits.
    pub fn partial_bytes(&self, kv_heads: u32, head_dim: u32) -> Result<PartialBytes, PlanError> {
        crate::plan::blob::partial_bytes(self.partial_rows as u64, 1, kv_heads, head_dim)
    }
}
