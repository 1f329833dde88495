//! A plan as bytes, so that a backend uploads it in one copy.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{MergeItem, PlanError, WorkItem, WorkList};
use crate::batch::Layout;

/// Sections start at multiples of this many bytes.
const ALIGN: usize = 16;

/// A batch and its work in one buffer.
#[derive(Clone, Debug, Default)]
pub struct PlanBlob {
    /// The sections, with padding of zeros between them.
    pub bytes: Vec<u8>,
    /// Where they are.
    pub offsets: PlanOffsets,
}

/// Byte ranges of the sections of a [`PlanBlob`]; starts are 16-byte aligned, and in order without overlap. Every
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
    /// Bytes in all, a multiple of 16.
    pub total: usize,
}

/// Bytes of the buffers that hold partial states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialBytes {
    /// `[slots][kv_heads][tile_rows][head_dim]` f32: sums of weight times value, relative to the row's maximum.
    pub o: u64,
    /// `[slots][kv_heads][tile_rows]` pairs of f32: maximum and denominator.
    pub md: u64,
}

impl PlanOffsets {
    /// The sections of a batch and its work.
    #[must_use]
    pub fn of(layout: &Layout, work: &WorkList) -> Self {
        let mut end = 0usize;
        let mut section = |bytes: usize| {
            let start = end.next_multiple_of(ALIGN);
            end = start + bytes;
            start..end
        };
        let (page_indptr, page_indices) = layout.pages().map_or((0, 0), |p| (p.indptr().len(), p.indices().len()));
        PlanOffsets {
            qo_indptr: section(size_of_val(layout.qo_indptr())),
            kv_indptr: section(size_of_val(layout.kv_indptr())),
            page_indptr: section(page_indptr * size_of::<i32>()),
            page_indices: section(page_indices * size_of::<i32>()),
            items: section(work.items.len() * size_of::<WorkItem>()),
            merges: section(work.merges.len() * size_of::<MergeItem>()),
            workers: section(work.workers.len() * size_of::<WorkerStart>()),
            total: end.next_multiple_of(ALIGN),
        }
    }
}

/// What a worker is told, in one piece, so that it waits for memory once before it knows where its keys are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct WorkerStart {
    /// Its first item.
    pub first: i32,
    /// One past its last item.
    pub end: i32,
    #[doc(hidden)]
    pub _pad: [i32; 2],
    /// The first item itself; zeros where there is none.
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
    /// Packs a batch and its work.
    #[must_use]
    pub fn pack(layout: &Layout, work: &WorkList) -> Self {
        let mut blob = PlanBlob::default();
        blob.repack(layout, work);
        blob
    }

    /// Packs again, into the same memory.
    pub fn repack(&mut self, layout: &Layout, work: &WorkList) {
        let offsets = PlanOffsets::of(layout, work);
        self.bytes.clear();
        self.bytes.reserve(offsets.total);
        // sections come in order: what was written before is never written again
        let mut write = |at: &Range<usize>, bytes: &[u8]| {
            self.bytes.resize(at.start, 0);
            self.bytes.extend_from_slice(bytes);
        };
        write(&offsets.qo_indptr, bytemuck::cast_slice(layout.qo_indptr()));
        write(&offsets.kv_indptr, bytemuck::cast_slice(layout.kv_indptr()));
        let (page_indptr, page_indices) = layout.pages().map_or((&[][..], &[][..]), |p| (p.indptr(), p.indices()));
        write(&offsets.page_indptr, bytemuck::cast_slice(page_indptr));
        write(&offsets.page_indices, bytemuck::cast_slice(page_indices));
        write(&offsets.items, bytemuck::cast_slice(&work.items));
        write(&offsets.merges, bytemuck::cast_slice(&work.merges));
        write(&offsets.workers, &[]);
        for worker in 0..work.workers.len() {
            self.bytes.extend_from_slice(bytemuck::bytes_of(&WorkerStart::of(work, worker)));
        }
        self.bytes.resize(offsets.total, 0);
        self.offsets = offsets;
    }
}

impl WorkList {
    /// Bytes of the buffers for partial states.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] when they do not fit 64 bits.
    pub fn partial_bytes(&self, kv_heads: u32, head_dim: u32) -> Result<PartialBytes, PlanError> {
        let states = u64::from(self.slots).checked_mul(u64::from(kv_heads) * u64::from(self.tile_rows));
        let bytes = |per_row: u64| {
            let total = states.and_then(|n| n.checked_mul(per_row));
            total.ok_or(PlanError::TooMany { what: "bytes of partial states", value: u64::MAX })
        };
        Ok(PartialBytes { o: bytes(4 * u64::from(head_dim))?, md: bytes(8)? })
    }
}
