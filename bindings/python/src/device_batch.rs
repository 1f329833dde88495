//! Batches whose lengths and pages the device reads when it plans.

use attn::batch::DevicePages;
use pyo3::prelude::*;

use crate::argument::{Arg, COUNT, optional};
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

    fn __repr__(&self) -> &'static str {
        match self.pages {
            Pages::Ragged => "<attn_rs.DeviceBatch, ragged>",
            Pages::Compressed { .. } => "<attn_rs.DeviceBatch, paged>",
            Pages::Padded { .. } => "<attn_rs.DeviceBatch, block table>",
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
        Ok(DeviceBatch { qo_indptr, kv_lens, pages, qo_tokens })
    }

    /// Calls `with` with the batch of the library. `reader` is the stream that reads it.
    pub(crate) fn with_batch<T>(
        &self,
        py: Python<'_>,
        location: Location,
        reader: Option<usize>,
        with: impl FnOnce(&attn::batch::DeviceBatch<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let read = |object: &Py<PyAny>, name: &str| view(object.bind(py), name, reader)?.on(location, name);
        // SAFETY: this keeps the caller's tensors; on a device the stream orders their use
        let ints = |view: &View, rank, name| unsafe { ints(view, rank, name) };
        let (qo_indptr, kv_lens) = (read(&self.qo_indptr, "qo_indptr")?, read(&self.kv_lens, "kv_lens")?);
        let rows = match &self.pages {
            Pages::Ragged => None,
            Pages::Compressed { indptr, indices } => {
                Some((Some(read(indptr, "page_indptr")?), read(indices, "page_indices")?))
            }
            Pages::Padded { table } => Some((None, read(table, "block_table")?)),
        };
        let pages = match &rows {
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
        let (qo_indptr, kv_lens) = (ints(&qo_indptr, 1, "qo_indptr")?, ints(&kv_lens, 1, "kv_lens")?);
        with(&attn::batch::DeviceBatch { qo_indptr, kv_lens, pages, qo_tokens: self.qo_tokens })
    }
}
