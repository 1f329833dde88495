//! Batches: the queries and keys of requests, and where the keys are stored.
//!
//! A [`Batch`] borrows the arrays of the caller. [`Batch::validate`] checks all of them once and gives a [`Layout`],
//! which the planner and the backends trust.

mod block_table;
mod capacity;
mod cascade;
mod coordinates;
mod description;
mod device;
mod device_levels;
mod device_pages;
mod error;
mod i32_slice;
mod indptr;
mod layout;
mod layout_segments;
mod limits;
mod page_table;
mod scan;
mod segment;

pub use block_table::{BlockTable, words};
pub use capacity::{BatchCapacity, PagePool};
pub(crate) use cascade::greatest_common_divisor;
pub use cascade::{CascadeLevel, CascadeLevelKv};
pub(crate) use coordinates::{logit_index, row_index};
pub use description::{Batch, KvLayout};
pub use device::DeviceBatch;
pub use device_pages::DevicePages;
pub use error::BatchError;
pub use i32_slice::I32Slice;
pub use indptr::indptr;
pub use layout::{Layout, Pages};
pub use limits::MAX_TOKENS;
pub use page_table::{PageTable, PageTableBuf};
pub use segment::KvSegment;

#[cfg(test)]
mod tests;
