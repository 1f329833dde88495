//! A plan as bytes, which a backend uploads in one copy.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{BranchWork, MergeItem, PlanCapacity, PlanError, WorkItem, WorkList};
use crate::batch::Layout;

/// Alignment of every section, in bytes.
const ALIGN: usize = 16;

/// A batch and its work in one buffer.
#[derive(Clone, Debug, Default)]
pub struct PlanBlob {
    /// The sections, with padding of zeros between them.
    pub bytes: Vec<u8>,
    /// Byte ranges of the sections.
    pub offsets: PlanOffsets,
}

/// Byte ranges of the sections of a [`PlanBlob`]. Sections start at multiples of 16 bytes and do not overlap. Every
/// section is an array of `i32`, or of structs of `i32`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOffsets {
    /// `[batch + 1]` i32.
    pub qo_indptr: Range<usize>,
    /// `[batch + 1]` i32, in tokens.
    pub kv_indptr: Range<usize>,
    /// `[batch + 1]` i32; empty for ragged keys.
    pub page_indptr: Range<usize>,
    /// `[page_indptr[batch]]` i32; empty for ragged keys.
    pub page_indices: Range<usize>,
    /// Work items.
    pub items: Range<usize>,
    /// Merges.
    pub merges: Range<usize>,
    /// [`WorkerStart`]s, one for each entry of [`WorkList::workers`].
    pub workers: Range<usize>,
    /// Size of the blob in bytes, a multiple of 16.
    pub total: usize,
}

/// Sizes in bytes of the buffers that hold partial states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialBytes {
    /// `[slots][kv_heads][tile_rows][head_dim]` f32: unnormalised outputs, sums of `exp(logit - row_max) * value`.
    pub o: u64,
    /// `[slots][kv_heads][tile_rows]` pairs of f32: `row_max` and denominator.
    pub md: u64,
}

/// Element counts of the sections.
struct Counts {
    requests: usize,
    /// Entries of the page table.
    pages: Option<usize>,
    items: usize,
    workers: usize,
    merges: usize,
}

impl PlanOffsets {
    /// The sections that hold a batch and its work list.
    #[must_use]
    pub fn of(layout: &Layout, work: &WorkList) -> Self {
        Self::counted(&Counts {
            requests: layout.batch(),
            pages: layout.pages().map(|pages| pages.indices().len()),
            items: work.items.len(),
            workers: work.workers.len(),
            merges: work.merges.len(),
        })
    }

    /// The sections of a plan with a capacity: they start at the same bytes for every batch, and have the size of the
    /// largest.
    #[must_use]
    pub fn within(capacity: &PlanCapacity) -> Self {
        let &PlanCapacity { requests, pages, branches, items, workers, merges, .. } = capacity;
        Self::counted(&Counts { requests, pages, items: branches * items, workers: branches * workers, merges })
    }

    fn counted(counts: &Counts) -> Self {
        let mut end = 0usize;
        let mut section = |bytes: usize| {
            let start = end.next_multiple_of(ALIGN);
            end = start + bytes;
            start..end
        };
        let indptr = (counts.requests + 1) * size_of::<i32>();
        // the page table comes last, so that its unused part need not be uploaded
        PlanOffsets {
            qo_indptr: section(indptr),
            kv_indptr: section(indptr),
            page_indptr: section(counts.pages.map_or(0, |_| indptr)),
            workers: section(counts.workers * size_of::<WorkerStart>()),
            items: section(counts.items * size_of::<WorkItem>()),
            merges: section(counts.merges * size_of::<MergeItem>()),
            page_indices: section(counts.pages.unwrap_or(0) * size_of::<i32>()),
            total: end.next_multiple_of(ALIGN),
        }
    }
}

/// The first load of a worker: its range of items, and a copy of the first item. One load instead of two saves a round
/// trip to memory before the worker knows its KV range.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
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

impl WorkerStart {
    fn of(work: &WorkList, worker: usize) -> Self {
        let first = work.workers[worker];
        let end = work.workers.get(worker + 1).copied().unwrap_or(first).max(first);
        let item = if first < end { work.items[first as usize] } else { WorkItem::default() };
        WorkerStart { first, end, _pad: [0; 2], item }
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

    /// As [`PlanBlob::pack`], into the memory of this blob.
    pub fn repack(&mut self, layout: &Layout, work: &WorkList) {
        self.offsets = PlanOffsets::of(layout, work);
        self.fill(layout, work);
        for worker in 0..work.workers.len() {
            self.worker(worker, WorkerStart::of(work, worker));
        }
        let items = self.offsets.items.start;
        self.put(items, bytemuck::cast_slice(&work.items));
    }

    /// As [`PlanBlob::repack`], into sections of a plan with a capacity, so that every section keeps its address.
    /// Unused entries hold no work: requests without queries and keys, workers without items, items without rows,
    /// merges without partial states. Items of branch `b` of a union begin at item `b * capacity.items`, its workers at
    /// `b * capacity.workers`. The bytes end with the page-table entries in use.
    ///
    /// # Errors
    ///
    /// [`PlanError::Capacity`] if the batch or its list exceeds the capacity; the blob is unchanged then.
    pub fn repack_within(
        &mut self,
        capacity: &PlanCapacity,
        layout: &Layout,
        work: &WorkList,
    ) -> Result<(), PlanError> {
        capacity.check(layout, work)?;
        self.offsets = PlanOffsets::within(capacity);
        self.fill(layout, work);
        for (branch, BranchWork { items, workers }) in work.branches().enumerate() {
            let moved = (branch * capacity.items) as i32 - items.start as i32;
            for (at, worker) in workers.clone().take(workers.len().saturating_sub(1)).enumerate() {
                let start = WorkerStart::of(work, worker);
                let start = WorkerStart { first: start.first + moved, end: start.end + moved, ..start };
                self.worker(branch * capacity.workers + at, start);
            }
            let first = self.offsets.items.start + branch * capacity.items * size_of::<WorkItem>();
            self.put(first, bytemuck::cast_slice(&work.items[items]));
        }
        Ok(())
    }

    /// Clears the blob and writes every section except workers and items.
    fn fill(&mut self, layout: &Layout, work: &WorkList) {
        let offsets = self.offsets.clone();
        self.bytes.clear();
        self.bytes.resize(offsets.page_indices.start, 0);
        self.indptr(&offsets.qo_indptr, layout.qo_indptr());
        self.indptr(&offsets.kv_indptr, layout.kv_indptr());
        self.put(offsets.merges.start, bytemuck::cast_slice(&work.merges));
        if let Some(pages) = layout.pages() {
            self.indptr(&offsets.page_indptr, pages.indptr());
            // by far the largest section, and the last one: it is appended, so that it need not be zeroed first
            self.bytes.extend_from_slice(bytemuck::cast_slice(pages.indices()));
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }

    /// Writes prefix sums; entries past the last request repeat the last sum.
    fn indptr(&mut self, at: &Range<usize>, sums: &[i32]) {
        let (first, end) = (at.start, at.start + size_of_val(sums));
        self.put(first, bytemuck::cast_slice(sums));
        if let Some(last) = sums.last() {
            for rest in self.bytes[end..at.end].chunks_exact_mut(size_of::<i32>()) {
                rest.copy_from_slice(bytemuck::bytes_of(last));
            }
        }
    }

    fn worker(&mut self, worker: usize, start: WorkerStart) {
        self.put(self.offsets.workers.start + worker * size_of::<WorkerStart>(), bytemuck::bytes_of(&start));
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl PlanCapacity {
    /// Sizes of the buffers for the partial states of a plan with this capacity; `tile_rows` comes from the
    /// [`PlanRule`](super::PlanRule); `head_dim` is the head dimension of values (`head_dim_vo`).
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] when they do not fit 64 bits.
    pub fn partial_bytes(&self, tile_rows: u32, kv_heads: u32, head_dim: u32) -> Result<PartialBytes, PlanError> {
        partial_bytes(self.slots as u64, tile_rows, kv_heads, head_dim)
    }
}

impl WorkList {
    /// Sizes of the buffers for the partial states of this list; `head_dim` is the head dimension of values.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] when they do not fit 64 bits.
    pub fn partial_bytes(&self, kv_heads: u32, head_dim: u32) -> Result<PartialBytes, PlanError> {
        partial_bytes(self.slots.into(), self.tile_rows, kv_heads, head_dim)
    }
}

pub(super) fn partial_bytes(
    slots: u64,
    tile_rows: u32,
    kv_heads: u32,
    head_dim: u32,
) -> Result<PartialBytes, PlanError> {
    let states = slots.checked_mul(u64::from(kv_heads) * u64::from(tile_rows));
    let bytes = |per_row: u64| {
        let total = states.and_then(|n| n.checked_mul(per_row));
        total.ok_or(PlanError::TooMany { what: "bytes of partial states", value: u64::MAX })
    };
    Ok(PartialBytes { o: bytes(4 * u64::from(head_dim))?, md: bytes(8)? })
}
