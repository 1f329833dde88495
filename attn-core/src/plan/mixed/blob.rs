//! A mixed plan as bytes, which a backend uploads in one copy.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{MixedCapacity, MixedItem, MixedList, MixedMerge};
use crate::{
    batch::{Layout, Segment},
    plan::{PartialBytes, PlanError},
};

/// Alignment of every section, in bytes.
const ALIGN: usize = 16;

/// A batch and its mixed work in one buffer.
#[derive(Clone, Debug, Default)]
pub struct MixedBlob {
    /// The sections, with padding of zeros between them.
    pub bytes: Vec<u8>,
    /// Byte ranges of the sections.
    pub offsets: MixedOffsets,
}

/// Byte ranges of the sections of a [`MixedBlob`]. Sections start at multiples of 16 bytes and do not overlap. Every
/// section is an array of `i32`, or of structs of `i32`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MixedOffsets {
    /// `[batch + 1]` i32.
    pub qo_indptr: Range<usize>,
    /// `[batch + 1]` i32: prefix sums of the keys of requests, over all of their segments.
    pub kv_indptr: Range<usize>,
    /// `[qo_tokens]` i32: the request of each query token. Empty if the capacity has one level.
    pub request_of_query: Range<usize>,
    /// `[segments + 1]` i32: prefix sums of the keys of segments, for the kernel that preprocesses all keys.
    pub segment_ends: Range<usize>,
    /// [`MixedSegment`]s of the layout; without levels one for each request.
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
    /// Size of the blob in bytes, a multiple of 16.
    pub total: usize,
}

/// The first load of a worker of the decode part: its range of items, and a copy of the first item. One load instead of
/// two saves a round trip to memory before the worker knows its KV range.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MixedStart {
    /// Index of its first item.
    pub first: i32,
    /// One past the index of its last item.
    pub end: i32,
    #[doc(hidden)]
    pub _pad: [i32; 2],
    /// A copy of the first item; zeros if the worker has no item.
    pub item: MixedItem,
}

/// A segment of keys, for the kernel that preprocesses all keys.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MixedSegment {
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

/// Element counts of the sections.
struct Counts {
    requests: usize,
    /// Query tokens if requests may share keys, else 0.
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
    /// The sections that hold a batch and its mixed list.
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

    /// The sections of a plan with a capacity: they start at the same bytes for every batch, and have the size of the
    /// largest.
    #[must_use]
    pub fn within(capacity: &MixedCapacity) -> Self {
        let &MixedCapacity { requests, queries, segments, decode, workers, prefill, merges, merge_parts, .. } =
            capacity;
        let pages = capacity.pages.unwrap_or(0);
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
        // the page table comes last, so that its unused part need not be uploaded
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
    /// Packs a batch and its mixed list.
    #[must_use]
    pub fn pack(layout: &Layout, work: &MixedList) -> Self {
        let mut blob = MixedBlob::default();
        blob.repack(layout, work);
        blob
    }

    /// As [`MixedBlob::pack`], into the memory of this blob.
    pub fn repack(&mut self, layout: &Layout, work: &MixedList) {
        self.offsets = MixedOffsets::of(layout, work);
        self.fill(layout, work);
    }

    /// As [`MixedBlob::repack`], into sections of a plan with a capacity, so that every section keeps its address.
    /// Unused entries hold no work: requests and segments without queries and keys, workers without items, items
    /// without rows, merges without parts. The bytes end with the page-table entries in use.
    ///
    /// # Errors
    ///
    /// [`PlanError::Capacity`] if the batch or its list exceeds the capacity, [`PlanError::Levels`] for a cascade under
    /// a capacity of one level; the blob is unchanged then.
    pub fn repack_within(
        &mut self,
        capacity: &MixedCapacity,
        layout: &Layout,
        work: &MixedList,
    ) -> Result<(), PlanError> {
        capacity.check(layout, work)?;
        self.offsets = MixedOffsets::within(capacity);
        self.fill(layout, work);
        Ok(())
    }

    /// Clears the blob and writes every section.
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
            // by far the largest section, and the last one: it is appended, so that it need not be zeroed first
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

    /// Writes prefix sums; entries past the last repeat the last sum.
    fn sums(&mut self, at: &Range<usize>, sums: &[i32]) {
        self.put(at.start, bytemuck::cast_slice(sums));
        if let Some(&last) = sums.last() {
            self.stay(at.start + size_of_val(sums)..at.end, last);
        }
    }

    /// Fills the entries of prefix sums past the last.
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
    /// All keys of a request without levels.
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
    /// Sizes of the buffers for partial states: `[partial_rows][kv_heads][head_dim]` f32, and
    /// `[partial_rows][kv_heads]` pairs of f32 (`row_max` and denominator). `head_dim` is that of values.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] when they do not fit 64 bits.
    pub fn partial_bytes(&self, kv_heads: u32, head_dim: u32) -> Result<PartialBytes, PlanError> {
        crate::plan::blob::partial_bytes(self.partial_rows.into(), 1, kv_heads, head_dim)
    }
}

impl MixedCapacity {
    /// As [`MixedList::partial_bytes`], for every batch within the capacity.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] when they do not fit 64 bits.
    pub fn partial_bytes(&self, kv_heads: u32, head_dim: u32) -> Result<PartialBytes, PlanError> {
        crate::plan::blob::partial_bytes(self.partial_rows as u64, 1, kv_heads, head_dim)
    }
}
