//! A serving step (validate, plan, pack) allocates nothing once memory has grown.
#![allow(missing_docs)] // a test

extern crate attn_core as attn;

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use attn::batch::{Batch, BatchCapacity, Layout, PageTableBuf, indptr};
use attn::lang::{AttentionVariant, LogitIndex};
use attn::plan::{Cost, PlanBlob, PlanCapacity, PlanRule, PlanScratch, Schedule, WorkList};
use attn::spec::Heads;
use attn::{Variant, VariantParams, attention_variant};

thread_local! {
    /// Allocations of this thread.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: `System` does all of it; counting touches no memory that is allocated.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(memory) }
    }
    unsafe fn dealloc(&self, at: *mut u8, memory: Memory) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, memory) }
    }
    unsafe fn realloc(&self, at: *mut u8, memory: Memory, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, memory, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The last keys.
#[derive(Clone, Copy, VariantParams)]
struct Last {
    window: i32,
}

#[attention_variant(name = "test_last")]
impl AttentionVariant for Last {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos && at.qo_pos - at.kv_pos < self.window
    }
}

#[test]
fn a_serving_step_allocates_nothing() {
    let heads = Heads { qo: 8, kv: 2, head_dim: 64 };
    let table = |step: u32| {
        let lens: Vec<u32> = (0..100).map(|i| (i * 617 + step * 91) % 3000).collect();
        let pages = lens.iter().map(|len| len.div_ceil(16)).sum();
        let mut next = 0..;
        PageTableBuf::from_lens(&lens, 16, pages, || next.next().expect("endless"))
    };
    let tables: Vec<_> = (0..20).map(table).collect();
    let qo = indptr(&[1; 100]).expect("short");
    for schedule in [Schedule::StreamK, Schedule::LongestFirst, Schedule::FixedSplit { keys: 512 }] {
        let cost = Cost { item: 1, block: 2, merge: 0 };
        let rule = PlanRule { tile_rows: 4, kv_align: 64, min_span: 64, workers: 300, cost, schedule };
        for variant in [Variant::full(), Last { window: 512 }.into()] {
            let (mut layout, mut work, mut blob) = (Layout::default(), WorkList::default(), PlanBlob::default());
            let (mut scratch, mut within) = (PlanScratch::default(), PlanBlob::default());
            let capacity = BatchCapacity::decode(100, 200_000).in_pages(16, 20_000);
            let plan_capacity = PlanCapacity::of(&capacity, &variant, heads, &rule.into()).expect("small");
            let mut step = |table: &PageTableBuf| {
                Batch::paged(&qo, &table.table()).validate_into(&mut layout).expect("sound");
                work.rebuild_for(&mut scratch, &variant, &[], &layout, heads, &rule.into()).expect("small");
                blob.repack(&layout, &work);
                capacity.check(&layout).expect("within");
                within.repack_within(&plan_capacity, &layout, &work).expect("within the capacity");
                assert!(work.merges.len() > 1);
            };
            tables.iter().for_each(&mut step);
            let before = COUNT.get();
            tables.iter().for_each(&mut step);
            assert_eq!(COUNT.get() - before, 0, "{schedule:?}, {variant}");
        }
    }
}
