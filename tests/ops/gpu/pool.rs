//! Fused pools of pages, and the slots and rows of tests.

use attn::ops::*;
use attn::{DeviceBuffer, Dtype, Error, PageOrder};

use crate::gpu::FLOATS;

/// A fused pool of pages in an order.
#[derive(Clone)]
pub(crate) struct Pool {
    pub(crate) order: PageOrder,
    pub(crate) pages: usize,
    pub(crate) slots: usize,
    pub(crate) heads: usize,
    pub(crate) dim: usize,
}

impl Pool {
    pub(crate) fn shape(&self) -> [usize; 5] {
        let &Pool { order, pages, slots, heads, dim } = self;
        match order {
            PageOrder::Nhd => [pages, 2, slots, heads, dim],
            PageOrder::Hnd => [pages, 2, heads, slots, dim],
        }
    }
    pub(crate) fn count(&self) -> usize {
        self.shape().iter().product()
    }
    pub(crate) fn read<'a>(&self, buffer: &'a DeviceBuffer) -> Result<KvRef<'a>, Error> {
        Ok(KvRef::fused(buffer.tensor(&self.shape())?, self.order)?)
    }
    pub(crate) fn write<'a>(&self, buffer: &'a mut DeviceBuffer) -> Result<KvMut<'a>, Error> {
        Ok(KvMut::fused(buffer.tensor_mut(&self.shape())?, self.order)?)
    }
}

pub(crate) fn pools(dim: usize) -> [Pool; 2] {
    [PageOrder::Nhd, PageOrder::Hnd].map(|order| Pool { order, pages: 9, slots: 5, heads: 3, dim })
}

/// Source and destination types of rows.
pub(crate) fn conversions() -> impl Iterator<Item = (Dtype, Dtype)> {
    let floats = FLOATS.into_iter().flat_map(|from| Dtype::ALL.map(|to| (from, to)));
    floats.chain([Dtype::E4m3, Dtype::E5m2].map(|same| (same, same)))
}

/// Each slot of the pool at most once, some padding.
pub(crate) const SLOTS: [i64; 14] = [44, 0, -1, 7, 12, 13, 14, -5, 31, 30, 2, 20, 43, 9];

/// The page rows of three requests, padded or compressed.
pub(crate) fn page_rows<'a>(
    padded: bool,
    indptr: &'a DeviceArray<i32>,
    pages: &'a DeviceArray<i32>,
) -> PageTableRows<'a> {
    match padded {
        true => PageTableRows::Padded { pages: pages.array(), max_pages: 3 },
        false => PageTableRows::Csr { indptr: indptr.array(), pages: pages.array() },
    }
}
