//! Batches whose lengths and pages the device reads when it plans.

use attn::batch::{self, DevicePages};
use pyo3::prelude::*;

use crate::argument::{Arg, COUNT, DEVICE_BATCH, optional};
use crate::array::ints;
use crate::error::{Failure, call};
use crate::location::Location;
use crate::producer::view;
use crate::tensor::View;

enum Pages {
    Ragged,
    Compressed { indptr: Py<PyAny>, indices: Py<PyAny> },
    Padded { table: Py<PyAny> },
}

/// A batch of int32 tensors in memory of the device, which `Plan.update_on_device` reads there: the host waits for
/// nothing and learns no length. The number of requests is that of the tensors; a request without queries does nothing.
///
/// It keeps the tensors, and none is read before an update. A CUDA graph that captured an update reads them again in
/// each replay: keep this, or the tensors, as long as the graph. On the CPU they are in host memory, and read at once.
///
/// With `qo_tokens` the batch has at most so many queries, and without a capture `q` and `o` need no more rows; else
/// they have those of the plan's capacity.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct DeviceBatch {
    qo_indptr: Py<PyAny>,
    kv_lens: Py<PyAny>,
    pages: Pages,
    qo_tokens: Option<u32>,
    /// Before the requests' own keys.
    levels: Vec<Py<DeviceBatch>>,
}

/// The tensors of a batch or a level.
struct Views {
    qo_indptr: View,
    kv_lens: View,
    /// The table, with prefix sums of compressed rows.
    pages: Option<(Option<View>, View)>,
}

#[pymethods]
impl DeviceBatch {
    /// Keys of the requests one after the other. `qo_indptr` is (requests + 1), prefix sums of query counts; `kv_lens`
    /// is (requests), the keys of each.
    #[staticmethod]
    #[pyo3(signature = (qo_indptr, kv_lens, *, qo_tokens=None))]
    fn ragged(py: Python<'_>, qo_indptr: Py<PyAny>, kv_lens: Py<PyAny>, qo_tokens: Option<Arg<u32>>) -> PyResult<Self> {
        Self::new(py, [qo_indptr, kv_lens], Pages::Ragged, qo_tokens)
    }

    /// Keys in pages of the plan's capacity, in compressed rows. `page_indptr` is (requests + 1), prefix sums of page
    /// counts; `page_indices` are pages in the pool, at least as many. A request may have more pages than its keys
    /// need.
    #[staticmethod]
    #[pyo3(signature = (qo_indptr, kv_lens, page_indptr, page_indices, *, qo_tokens=None))]
    fn paged(
        py: Python<'_>,
        qo_indptr: Py<PyAny>,
        kv_lens: Py<PyAny>,
        page_indptr: Py<PyAny>,
        page_indices: Py<PyAny>,
        qo_tokens: Option<Arg<u32>>,
    ) -> PyResult<Self> {
        let pages = Pages::Compressed { indptr: page_indptr, indices: page_indices };
        Self::new(py, [qo_indptr, kv_lens], pages, qo_tokens)
    }

    /// Keys in pages of the plan's capacity, in rows of one length. `block_table` is (requests, pages per request),
    /// without gaps; entries past the pages that a request's keys need are not read.
    #[staticmethod]
    #[pyo3(signature = (qo_indptr, block_table, kv_lens, *, qo_tokens=None))]
    fn block_table(
        py: Python<'_>,
        qo_indptr: Py<PyAny>,
        block_table: Py<PyAny>,
        kv_lens: Py<PyAny>,
        qo_tokens: Option<Arg<u32>>,
    ) -> PyResult<Self> {
        Self::new(py, [qo_indptr, kv_lens], Pages::Padded { table: block_table }, qo_tokens)
    }

    /// Keys that neighbouring requests share, level by level, from the outermost. A level is a batch whose requests are
    /// groups: its `qo_indptr` says where groups end among the queries of the batch, its `kv_lens` and pages are the
    /// keys that each group shares. The last level has the requests, with the keys of their own. Ragged keys lie level
    /// by level. The plan's capacity has as many levels. The last level may have a bound of queries, no other.
    #[staticmethod]
    fn cascade(py: Python<'_>, levels: Arg<Vec<Arg<Py<DeviceBatch>>>>) -> PyResult<Self> {
        call(py, || {
            let mut checked = Vec::new();
            for level in levels.get(py, "levels", "a list of `DeviceBatch`es, of which the last has the requests")? {
                let name = format!("levels[{}]", checked.len());
                let level = level.get(py, &name, DEVICE_BATCH)?;
                if !level.get().levels.is_empty() {
                    return Err(Failure::batch(format!("{name} is a cascade; a level is of one kind of keys")));
                }
                checked.push(level);
            }
            let own =
                checked.pop().ok_or_else(|| Failure::batch("levels is empty; the last level has the requests"))?;
            let &DeviceBatch { ref qo_indptr, ref kv_lens, ref pages, qo_tokens, .. } = own.get();
            let (qo_indptr, kv_lens, pages) = (qo_indptr.clone_ref(py), kv_lens.clone_ref(py), pages.clone_ref(py));
            Ok(DeviceBatch { qo_indptr, kv_lens, pages, qo_tokens, levels: checked })
        })
    }

    fn __repr__(&self) -> String {
        let keys = match self.pages {
            Pages::Ragged => "ragged",
            Pages::Compressed { .. } => "paged",
            Pages::Padded { .. } => "block table",
        };
        match self.levels.len() {
            0 => format!("<attn_rs.DeviceBatch, {keys}>"),
            before => format!("<attn_rs.DeviceBatch, {keys}, {} levels>", before + 1),
        }
    }
}

impl DeviceBatch {
    fn new(
        py: Python<'_>,
        [qo_indptr, kv_lens]: [Py<PyAny>; 2],
        pages: Pages,
        qo_tokens: Option<Arg<u32>>,
    ) -> PyResult<Self> {
        let qo_tokens = call(py, || optional(qo_tokens, py, "qo_tokens", COUNT))?;
        Ok(DeviceBatch { qo_indptr, kv_lens, pages, qo_tokens, levels: Vec::new() })
    }

    /// Calls `with` with the batch of the library. `reader` is the stream that reads it.
    pub(crate) fn with_batch<T>(
        &self,
        py: Python<'_>,
        location: Location,
        reader: Option<usize>,
        with: impl FnOnce(&batch::DeviceBatch<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let views = |of: &DeviceBatch| of.views(py, location, reader);
        let of_levels = self.levels.iter().map(|level| views(level.get())).collect::<Result<Vec<_>, _>>()?;
        let mut levels = of_levels.iter().map(Views::level).collect::<Result<Vec<_>, _>>()?;
        // a bound of a level is refused by the library
        levels.iter_mut().zip(&self.levels).for_each(|(level, of)| level.qo_tokens = of.get().qo_tokens);
        let own = views(self)?;
        with(&batch::DeviceBatch { qo_tokens: self.qo_tokens, levels: &levels, ..own.level()? })
    }

    fn views(&self, py: Python<'_>, location: Location, reader: Option<usize>) -> Result<Views, Failure> {
        let read = |object: &Py<PyAny>, name: &str| view(object.bind(py), name, reader)?.on(location, name);
        let (qo_indptr, kv_lens) = (read(&self.qo_indptr, "qo_indptr")?, read(&self.kv_lens, "kv_lens")?);
        let pages = match &self.pages {
            Pages::Ragged => None,
            Pages::Compressed { indptr, indices } => {
                Some((Some(read(indptr, "page_indptr")?), read(indices, "page_indices")?))
            }
            Pages::Padded { table } => Some((None, read(table, "block_table")?)),
        };
        Ok(Views { qo_indptr, kv_lens, pages })
    }
}

impl Views {
    /// The arrays. The batch that they are of keeps the caller's tensors.
    fn level(&self) -> Result<batch::DeviceBatch<'_>, Failure> {
        // SAFETY: the batch keeps the caller's tensors; on a device the stream orders their use
        let ints = |view: &View, rank, name| unsafe { ints(view, rank, name) };
        let pages = match &self.pages {
            None => None,
            Some((Some(indptr), indices)) => Some(DevicePages::Compressed {
                indptr: ints(indptr, 1, "page_indptr")?,
                indices: ints(indices, 1, "page_indices")?,
            }),
            Some((None, table)) => {
                let indices = ints(table, 2, "block_table")?;
                Some(DevicePages::Padded { indices, max_pages: table.dims.shape()[1] })
            }
        };
        let (qo_indptr, kv_lens) = (ints(&self.qo_indptr, 1, "qo_indptr")?, ints(&self.kv_lens, 1, "kv_lens")?);
        Ok(batch::DeviceBatch { pages, ..batch::DeviceBatch::ragged(qo_indptr, kv_lens) })
    }
}

impl Pages {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Pages::Ragged => Pages::Ragged,
            Pages::Compressed { indptr, indices } => {
                Pages::Compressed { indptr: indptr.clone_ref(py), indices: indices.clone_ref(py) }
            }
            Pages::Padded { table } => Pages::Padded { table: table.clone_ref(py) },
        }
    }
}
