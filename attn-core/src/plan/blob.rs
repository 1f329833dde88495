//! A plan as bytes, which a backend uploads in one copy.

use std::{iter, mem, ops::Range};

use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

use super::{MergeItem, PartCapacity, PlanCapacity, PlanError, WorkItem, WorkList};
use crate::batch::{KvSegment, Layout};

/// Alignment of every section, in bytes.
const ALIGN: usize = 16;

/// A batch and its work in one buffer.
#[derive(Clone, Debug, Default)]
pub struct PlanBlob {
    /// The sections, with padding of zeros between them.
    pub bytes: Vec<u8>,
    /// Where the sections are.
    pub offsets: PlanOffsets,
}

/// Byte ranges of the sections of a [`PlanBlob`]. Sections start at multiples of 16 bytes and do not overlap. Every
/// section is an array of `i32`, or of structs of `i32`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOffsets {
    /// `[batch + 1]` i32.
    pub qo_indptr: Range<usize>,
    /// `[batch + 1]` i32: prefix sums of the keys of requests, over all of their segments.
    pub kv_indptr: Range<usize>,
    /// `[batch + 1]` i32; empty for ragged keys, and where there are segments.
    pub page_indptr: Range<usize>,
    /// `[qo_tokens]` i32: the request of each query token. Empty without levels.
    pub request_of_query: Range<usize>,
    /// `[segments + 1]` i32: prefix sums of the keys of segments, for the kernel that preprocesses all keys.
    pub segment_ends: Range<usize>,
    /// [`KvSegment`]s of a mixed list: those of the layout; without levels one for each request.
    pub segments: Range<usize>,
    /// [`WorkerStart`]s of all parts.
    pub workers: Range<usize>,
    /// [`WorkItem`]s of all parts.
    pub items: Range<usize>,
    /// [`MergeItem`]s.
    pub merges: Range<usize>,
    /// [`WorkList::merge_parts`]: i32.
    pub merge_parts: Range<usize>,
    /// [`Pages::indices`](crate::batch::Pages::indices): i32; empty for ragged keys.
    pub page_indices: Range<usize>,
    /// Size of the blob in bytes, a multiple of 16.
    pub total: usize,
    /// The entries of each part.
    pub parts: Vec<PartRanges>,
}

/// The entries of a part in the sections of items and workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartRanges {
    /// Entries of [`PlanOffsets::items`].
    pub items: Range<usize>,
    /// Entries of [`PlanOffsets::workers`].
    pub workers: Range<usize>,
}

/// Sizes in bytes of the buffers that hold partial states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialBytes {
    /// `[partial_rows][kv_heads][head_dim]` f32: unnormalised outputs, sums of `exp(logit - row_max) * value`.
    pub o: u64,
    /// `[partial_rows][kv_heads]` pairs of f32: `row_max` and denominator.
    pub md: u64,
}

impl PartialBytes {
    /// The sizes for `rows` partial rows ([`WorkList::partial_rows`]); `head_dim` is the head dimension of values.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] when they do not fit 64 bits.
    pub fn of(rows: usize, kv_heads: u32, head_dim: u32) -> Result<Self, PlanError> {
        let states = (rows as u64).checked_mul(kv_heads.into());
        let bytes = |per_state: u64| {
            let total = states.and_then(|n| n.checked_mul(per_state));
            total.ok_or(PlanError::TooMany { what: "bytes of partial states", value: u64::MAX })
        };
        Ok(PartialBytes { o: bytes(4 * u64::from(head_dim))?, md: bytes(8)? })
    }
}

/// The first load of a worker: its range of items, and a copy of the first item. One load instead of two saves a round
/// trip to memory before the worker knows its KV range.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, CudaStruct)]
pub struct WorkerStart {
    /// Index of its first item.
    pub first: i32,
    /// One past the index of its last item.
    pub end: i32,
    #[doc(hidden)]
    pub _pad: [i32; 2],
    /// A copy of the first item; zeros if the worker has no item.
    pub item: WorkItem,
}

impl PlanOffsets {
    /// The sections that hold a batch and its work list.
    #[must_use]
    pub fn of(layout: &Layout, work: &WorkList) -> Self {
        let mut offsets = PlanOffsets::default();
        offsets.arrange_for(layout, work);
        offsets
    }

    /// The sections of a plan with a capacity: they start at the same bytes for every batch, and have the size of the
    /// largest.
    #[must_use]
    pub fn within(capacity: &PlanCapacity) -> Self {
        let mut offsets = PlanOffsets::default();
        offsets.arrange(capacity, capacity.parts.iter().copied());
        offsets
    }

    fn arrange_for(&mut self, layout: &Layout, work: &WorkList) {
        let of_batch = PlanCapacity {
            requests: layout.batch(),
            queries: if layout.has_levels() { layout.qo_tokens() } else { 0 },
            segments: if work.is_mixed() { layout.segment_count() } else { 0 },
            pages: layout.pages().map(|pages| pages.indices().len()),
            merges: work.merges.len(),
            merge_parts: work.merge_parts.len(),
            ..PlanCapacity::default()
        };
        let parts = work.parts.iter().map(|part| (part.items.len(), part.workers.len().saturating_sub(1)));
        self.arrange(&of_batch, parts.map(|(items, workers)| PartCapacity { items, workers }));
    }

    /// Arranges sections for counts, with these parts instead of those of the counts.
    fn arrange(&mut self, counts: &PlanCapacity, parts: impl Iterator<Item = PartCapacity>) {
        let mut of_parts = mem::take(&mut self.parts);
        of_parts.clear();
        let (mut items, mut workers) = (0, 0);
        of_parts.extend(parts.map(|part| {
            let entries = PartRanges { items: items..items + part.items, workers: workers..workers + part.workers };
            (items, workers) = (entries.items.end, entries.workers.end);
            entries
        }));
        let mut end = 0usize;
        let mut section = |entries: usize, bytes: usize| {
            let start = end.next_multiple_of(ALIGN);
            end = start + entries * bytes;
            start..end
        };
        let int = size_of::<i32>();
        let segment_ends = if counts.segments > 0 { counts.segments + 1 } else { 0 };
        let page_ends = if counts.pages.is_some() && counts.segments == 0 { counts.requests + 1 } else { 0 };
        // the page table comes last, so that its unused part need not be uploaded
        *self = PlanOffsets {
            qo_indptr: section(counts.requests + 1, int),
            kv_indptr: section(counts.requests + 1, int),
            page_indptr: section(page_ends, int),
            request_of_query: section(counts.queries, int),
            segment_ends: section(segment_ends, int),
            segments: section(counts.segments, size_of::<KvSegment>()),
            workers: section(workers, size_of::<WorkerStart>()),
            items: section(items, size_of::<WorkItem>()),
            merges: section(counts.merges, size_of::<MergeItem>()),
            merge_parts: section(counts.merge_parts, int),
            page_indices: section(counts.pages.unwrap_or(0), int),
            total: end.next_multiple_of(ALIGN),
            parts: of_parts,
        };
    }
}

impl PlanBlob {
    /// Packs a batch and its work list.
    #[must_use]
    pub fn pack(layout: &Layout, work: &WorkList) -> Self {
        let mut blob = PlanBlob::default();
        blob.repack(layout, work);
        blob
    }

    /// Packs into the memory of this blob.
    pub fn repack(&mut self, layout: &Layout, work: &WorkList) {
        self.offsets.arrange_for(layout, work);
        self.fill(layout, work);
    }

    /// Packs into sections of a plan with a capacity, so that every section keeps its address. Unused entries hold no
    /// work: requests and segments without queries and keys, workers without items, items without rows, merges without
    /// states. The bytes end with the page-table entries in use.
    ///
    /// # Errors
    ///
    /// The errors of [`PlanCapacity::check`]; the blob is unchanged then.
    pub fn repack_within(
        &mut self,
        capacity: &PlanCapacity,
        layout: &Layout,
        work: &WorkList,
    ) -> Result<(), PlanError> {
        capacity.check(layout, work)?;
        self.offsets.arrange(capacity, capacity.parts.iter().copied());
        self.fill(layout, work);
        Ok(())
    }

    /// Clears the blob and writes every section.
    fn fill(&mut self, layout: &Layout, work: &WorkList) {
        let PlanBlob { bytes, offsets } = self;
        bytes.clear();
        bytes.resize(offsets.page_indices.start, 0);
        let mut writer = SectionWriter { bytes };
        writer.sums(&offsets.qo_indptr, layout.qo_indptr());
        writer.sums(&offsets.kv_indptr, layout.kv_indptr());
        if !offsets.request_of_query.is_empty() {
            let requests = layout.qo_indptr().windows(2).zip(0i32..);
            let of_query = requests.flat_map(|(ends, request)| (ends[0]..ends[1]).map(move |_| request));
            writer.array(&offsets.request_of_query, 0, of_query);
        }
        if !offsets.segment_ends.is_empty() {
            let segments = layout.all_segments();
            writer.array(&offsets.segments, 0, segments.clone());
            let ends = segments.map(|segment| segment.pass + segment.keys);
            writer.array(&offsets.segment_ends, 1, ends.chain(iter::repeat(layout.preprocessed_keys())));
        }
        for (part, entries) in work.parts.iter().zip(&offsets.parts) {
            let moved = entries.items.start as i32 - part.items.start as i32;
            let starts = work.workers[part.workers.clone()].windows(2).map(|ends| {
                let item = if ends[0] < ends[1] { work.items[ends[0] as usize] } else { WorkItem::default() };
                WorkerStart { first: ends[0] + moved, end: ends[1] + moved, _pad: [0; 2], item }
            });
            writer.array(&offsets.workers, entries.workers.start, starts);
            writer.slice(&offsets.items, entries.items.start, &work.items[part.items.clone()]);
        }
        writer.slice(&offsets.merges, 0, &work.merges);
        writer.slice(&offsets.merge_parts, 0, &work.merge_parts);
        if let Some(pages) = layout.pages() {
            if !offsets.page_indptr.is_empty() {
                writer.sums(&offsets.page_indptr, pages.indptr());
            }
            // by far the largest section, and the last one: it is appended, so that it need not be zeroed first
            bytes.extend_from_slice(bytemuck::cast_slice(pages.indices()));
        }
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
    }
}

/// Writes entries of sections.
struct SectionWriter<'a> {
    bytes: &'a mut [u8],
}

impl SectionWriter<'_> {
    fn slice<T: Pod>(&mut self, section: &Range<usize>, first: usize, values: &[T]) {
        let start = section.start + first * size_of::<T>();
        self.bytes[start..start + size_of_val(values)].copy_from_slice(bytemuck::cast_slice(values));
    }

    fn array<T: Pod>(&mut self, section: &Range<usize>, first: usize, values: impl Iterator<Item = T>) {
        let entries = self.bytes[section.start + first * size_of::<T>()..section.end].chunks_exact_mut(size_of::<T>());
        entries.zip(values).for_each(|(to, value)| to.copy_from_slice(bytemuck::bytes_of(&value)));
    }

    /// Writes prefix sums; entries past the last repeat the last sum.
    fn sums(&mut self, section: &Range<usize>, sums: &[i32]) {
        self.slice(section, 0, sums);
        self.array(section, sums.len(), iter::repeat(sums.last().copied().unwrap_or(0)));
    }
}
