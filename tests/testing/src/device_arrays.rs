//! The lengths and pages of a batch in memory of an engine, for plans that are made on its device.

use attn::{DeviceBuffer, Engine};
use attn_core::batch::{DeviceBatch, DevicePages, I32Slice, Layout, words};

use super::{Keys, TestError};

/// An array of integers in memory of the engine.
enum Ints {
    Host(Vec<i32>),
    Device(DeviceBuffer),
}

/// The arrays of a batch without levels.
pub(super) struct DeviceArrays {
    qo_indptr: Ints,
    kv_lens: Ints,
    pages: Option<Pages>,
}

enum Pages {
    Compressed { indptr: Ints, indices: Ints },
    Padded { indices: Ints, max_pages: usize },
}

impl Ints {
    fn put(engine: &Engine, values: &[i32]) -> Result<Self, TestError> {
        if engine.is_cpu() {
            return Ok(Ints::Host(values.to_vec()));
        }
        Ok(Ints::Device(engine.upload_bytes(bytemuck::cast_slice(values))?))
    }

    fn slice(&self) -> I32Slice<'_> {
        match self {
            Ints::Host(values) => I32Slice::host(values),
            // SAFETY: the buffer holds as many; nothing writes to it, and the check waits for the stream before it is
            // freed.
            Ints::Device(buffer) => unsafe {
                I32Slice::device(buffer.device_ptr().unwrap_or(0), buffer.elements() / size_of::<i32>())
            },
        }
    }
}

impl DeviceArrays {
    /// Copies the arrays of a batch: a block table in padded rows, other pages in compressed rows.
    pub(super) fn put(engine: &Engine, layout: &Layout, keys: &Keys) -> Result<Self, TestError> {
        let put = |values: &[i32]| Ints::put(engine, values);
        let pages = match (keys, layout.pages()) {
            (_, None) => None,
            (Keys::BlockTable(table), _) => {
                Some(Pages::Padded { indices: put(words(&table.pages))?, max_pages: table.max_pages })
            }
            (_, Some(pages)) => {
                Some(Pages::Compressed { indptr: put(pages.indptr())?, indices: put(pages.indices())? })
            }
        };
        let kv_lens: Vec<i32> = layout.kv_indptr().windows(2).map(|ends| ends[1] - ends[0]).collect();
        Ok(DeviceArrays { qo_indptr: put(layout.qo_indptr())?, kv_lens: put(&kv_lens)?, pages })
    }

    /// The batch.
    pub(super) fn batch(&self) -> DeviceBatch<'_> {
        let (qo_indptr, kv_lens) = (self.qo_indptr.slice(), self.kv_lens.slice());
        match &self.pages {
            None => DeviceBatch::ragged(qo_indptr, kv_lens),
            Some(Pages::Compressed { indptr, indices }) => {
                let pages = DevicePages::Compressed { indptr: indptr.slice(), indices: indices.slice() };
                DeviceBatch::paged(qo_indptr, kv_lens, pages)
            }
            Some(Pages::Padded { indices, max_pages }) => {
                let pages = DevicePages::Padded { indices: indices.slice(), max_pages: *max_pages };
                DeviceBatch::paged(qo_indptr, kv_lens, pages)
            }
        }
    }
}
