//! The lengths and pages of a batch in memory of an engine, for plans that are made on its device.

use attn::{DeviceBuffer, Engine};
use attn_core::batch::{CascadeLevel, CascadeLevelKv, DeviceBatch, DevicePages, I32Slice, Layout, PageTable, words};

use super::{Keys, TestError};

/// An array of integers in memory of the engine.
enum Ints {
    Host(Vec<i32>),
    Device(DeviceBuffer),
}

/// The arrays of a batch.
pub(super) struct DeviceArrays {
    own: LevelArrays,
    levels: Vec<LevelArrays>,
}

/// The arrays of the requests' own keys, or of a level.
struct LevelArrays {
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
    /// Copies the arrays of a batch: a block table in padded rows, other pages in compressed rows. `None` for levels
    /// that a [`DeviceBatch`] does not describe: of ragged keys in other places than one behind the other, or of pages
    /// of several sizes.
    pub(super) fn put(engine: &Engine, layout: &Layout, keys: &Keys) -> Result<Option<Self>, TestError> {
        let put = |values: &[i32]| Ints::put(engine, values);
        let (qo_indptr, mut levels) = (layout.qo_indptr(), Vec::new());
        for CascadeLevel { qo_indptr, kv } in keys.levels() {
            match (kv, layout.pages()) {
                (CascadeLevelKv::Paged(table), Some(pages)) if table.page_size == pages.page_size() => {
                    levels.push(LevelArrays::of(engine, qo_indptr, &table)?);
                }
                _ => return Ok(None),
            }
        }
        if let Some(own) = levels.pop() {
            return Ok(Some(DeviceArrays { own, levels }));
        }
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
        Ok(Some(DeviceArrays {
            own: LevelArrays { qo_indptr: put(qo_indptr)?, kv_lens: put(&kv_lens)?, pages },
            levels,
        }))
    }

    /// The levels before the requests' own keys.
    pub(super) fn levels(&self) -> Vec<DeviceBatch<'_>> {
        self.levels.iter().map(LevelArrays::level).collect()
    }

    /// The batch behind these levels.
    pub(super) fn batch<'a>(&'a self, levels: &'a [DeviceBatch<'a>]) -> DeviceBatch<'a> {
        self.own.level().with_levels(levels)
    }
}

impl LevelArrays {
    fn of(engine: &Engine, qo_indptr: &[i32], table: &PageTable<'_>) -> Result<Self, TestError> {
        let put = |values: &[i32]| Ints::put(engine, values);
        let keys = |(ends, &last): (&[i32], &i32)| match ends[1] - ends[0] {
            0 => 0,
            pages => (pages - 1) * table.page_size as i32 + last,
        };
        let kv_lens: Vec<i32> = table.indptr.windows(2).zip(table.last_page_len).map(keys).collect();
        let pages = Pages::Compressed { indptr: put(table.indptr)?, indices: put(table.indices)? };
        Ok(LevelArrays { qo_indptr: put(qo_indptr)?, kv_lens: put(&kv_lens)?, pages: Some(pages) })
    }

    fn level(&self) -> DeviceBatch<'_> {
        let pages = self.pages.as_ref().map(|pages| match pages {
            Pages::Compressed { indptr, indices } => {
                DevicePages::Compressed { indptr: indptr.slice(), indices: indices.slice() }
            }
            Pages::Padded { indices, max_pages } => {
                DevicePages::Padded { indices: indices.slice(), max_pages: *max_pages }
            }
        });
        DeviceBatch { pages, ..DeviceBatch::ragged(self.qo_indptr.slice(), self.kv_lens.slice()) }
    }
}
