//! Batches whose lengths are in tensors on the device.

use attn::batch::{DeviceBatch, DevicePages};
use candle_core::{Result, Tensor};

use crate::Engine;
use crate::tensors::{CudaStream, IntSlice, Ints};

/// The pages of a batch whose lengths are on the device. All tensors are contiguous, of u32 or i32.
#[derive(Clone, Copy, Debug)]
pub enum DeviceTable<'a> {
    /// In rows of one length: (requests, entries).
    Padded(&'a Tensor),
    /// In compressed rows.
    Compressed {
        /// (requests + 1): prefix sums of page counts.
        indptr: &'a Tensor,
        /// Page numbers, request by request.
        indices: &'a Tensor,
    },
}

/// A level of keys that groups of neighbouring requests share, or the keys of the requests themselves. All tensors are
/// contiguous, of u32 or i32.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLevel<'a> {
    /// (groups + 1): prefix sums of query counts. Each must occur in that of the last level.
    pub qo_indptr: &'a Tensor,
    /// (groups): key counts.
    pub kv_lens: &'a Tensor,
    /// The pages of these keys; `None` where they are ragged.
    pub pages: Option<DeviceTable<'a>>,
}

/// The numbers of a level: `Ints`, or their slices in the order of a stream.
pub(crate) struct LevelNumbers<I> {
    qo_indptr: I,
    kv_lens: I,
    page_indptr: Option<I>,
    pages: Option<I>,
    max_pages: usize,
}

impl<'a> LevelNumbers<Ints<'a>> {
    pub(crate) fn new(level: &DeviceLevel<'a>, engine: &Engine) -> Result<Self> {
        let ints = |tensor: &'a Tensor, name| -> Result<Ints<'a>> {
            let ints = Ints::new(tensor, name)?;
            engine.check(&ints.device(), name)?;
            Ok(ints)
        };
        let (page_indptr, pages, max_pages) = match level.pages {
            None => (None, None, 0),
            Some(DeviceTable::Padded(table)) => (None, Some(ints(table, "pages")?), table.dims2()?.1),
            Some(DeviceTable::Compressed { indptr, indices }) => {
                (Some(ints(indptr, "page_indptr")?), Some(ints(indices, "page_indices")?), 0)
            }
        };
        let (qo_indptr, kv_lens) = (ints(level.qo_indptr, "qo_indptr")?, ints(level.kv_lens, "kv_lens")?);
        Ok(LevelNumbers { qo_indptr, kv_lens, page_indptr, pages, max_pages })
    }

    pub(crate) fn slices<'b>(&'b self, stream: Option<&'b CudaStream>) -> Result<LevelNumbers<IntSlice<'b>>> {
        Ok(LevelNumbers {
            qo_indptr: self.qo_indptr.slice(stream)?,
            kv_lens: self.kv_lens.slice(stream)?,
            page_indptr: self.page_indptr.as_ref().map(|of| of.slice(stream)).transpose()?,
            pages: self.pages.as_ref().map(|of| of.slice(stream)).transpose()?,
            max_pages: self.max_pages,
        })
    }
}

impl LevelNumbers<IntSlice<'_>> {
    /// The level as a batch of its groups.
    pub(crate) fn batch(&self) -> DeviceBatch<'_> {
        let (qo_indptr, kv_lens) = (self.qo_indptr.slice, self.kv_lens.slice);
        let pages = self.pages.as_ref().map(|pages| match &self.page_indptr {
            None => DevicePages::Padded { indices: pages.slice, max_pages: self.max_pages },
            Some(indptr) => DevicePages::Compressed { indptr: indptr.slice, indices: pages.slice },
        });
        DeviceBatch { qo_indptr, kv_lens, pages, qo_tokens: None, levels: &[] }
    }
}
