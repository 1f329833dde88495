//! Batches, and the largest batch of a plan.

use attn::{BatchCapacity, BlockTable, PageTable};
use pyo3::prelude::*;

use crate::{
    engine::Location,
    error::{Failure, call},
    tensor::{Element, view},
};

enum Keys {
    Ragged { indptr: Vec<i32> },
    Paged { indptr: Vec<i32>, indices: Vec<i32>, last_page_len: Vec<i32> },
    BlockTable { pages: Vec<i32>, max_pages: usize, kv_lens: Vec<i32> },
}

/// A batch of requests: how many queries each has, and where its keys are.
///
/// Arrays are lists, arrays of numpy or tensors of torch in host memory, of whole numbers. They are copied.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct Batch {
    qo_indptr: Vec<i32>,
    keys: Keys,
    page_size: u32,
    num_pages: u32,
}

/// Whole numbers of a list or of an array in host memory, in row-major order, and the shape of an array.
fn numbers(object: &Bound<'_, PyAny>, name: &str) -> Result<(Vec<i32>, Option<Vec<usize>>), Failure> {
    let narrow = |number: i64| {
        i32::try_from(number).map_err(|_| Failure::batch(format!("{name} has {number}; numbers are below 2^31")))
    };
    if !object.hasattr("__dlpack__")? {
        let list: Vec<i64> = match object.extract() {
            Ok(list) => list,
            // rows of a table
            Err(error) => match object.extract::<Vec<Vec<i64>>>() {
                Ok(rows) => {
                    let width = rows.first().map_or(0, Vec::len);
                    if rows.iter().any(|row| row.len() != width) {
                        return Err(Failure::batch(format!("{name} has rows of different lengths")));
                    }
                    let shape = vec![rows.len(), width];
                    return Ok((rows.into_iter().flatten().map(narrow).collect::<Result<_, _>>()?, Some(shape)));
                }
                Err(_) => return Err(error.into()),
            },
        };
        return Ok((list.into_iter().map(narrow).collect::<Result<_, _>>()?, None));
    }
    let array = view(object, name, None)?;
    if array.location != Location::Cpu {
        let location = array.location;
        return Err(Failure::batch(format!("{name} is on {location}; a batch is read on the host: pass {name}.cpu()")));
    }
    let (shape, strides) = (array.dims.shape(), array.dims.strides());
    let size = match array.element {
        Element::I32 => 4,
        Element::I64 => 8,
        _ => return Err(Failure::batch(format!("{name} is not of whole numbers; pass int32 or int64"))),
    };
    let count: usize = shape.iter().product();
    let read = |mut index: usize| {
        let mut offset = 0isize;
        for (&length, &stride) in shape.iter().zip(strides).rev() {
            offset += (index % length) as isize * stride as isize;
            index /= length;
        }
        let at = (array.data as *const u8).wrapping_offset(offset * size);
        // SAFETY: the element of an index within the shape, in host memory that the caller's object keeps
        unsafe {
            match array.element {
                Element::I32 => i64::from(at.cast::<i32>().read_unaligned()),
                _ => at.cast::<i64>().read_unaligned(),
            }
        }
    };
    Ok(((0..count).map(|index| narrow(read(index))).collect::<Result<_, _>>()?, Some(shape.to_vec())))
}

/// As [`numbers`], of one dimension.
fn line(object: &Bound<'_, PyAny>, name: &str) -> Result<Vec<i32>, Failure> {
    match numbers(object, name)? {
        (line, Some(shape)) if shape.len() != 1 => Err(Failure::batch(format!(
            "{name} has the shape {shape:?} of {} numbers; it has one dimension",
            line.len()
        ))),
        (line, _) => Ok(line),
    }
}

#[pymethods]
impl Batch {
    /// Keys of the requests one after the other.
    ///
    /// `qo_indptr` and `kv_indptr` have `requests + 1` numbers: where the queries and the keys of each request begin,
    /// and how many there are. The last queries of a request are those of its last keys.
    #[staticmethod]
    fn ragged(py: Python<'_>, qo_indptr: &Bound<'_, PyAny>, kv_indptr: &Bound<'_, PyAny>) -> PyResult<Self> {
        call(py, || {
            let keys = Keys::Ragged { indptr: line(kv_indptr, "kv_indptr")? };
            Ok(Batch { qo_indptr: line(qo_indptr, "qo_indptr")?, keys, page_size: 0, num_pages: 0 })
        })
    }

    /// Keys in pages that are listed one request after the other (CSR), as FlashInfer has them.
    ///
    /// `page_indptr` has `requests + 1` numbers, `last_page_len` has `requests`: the keys in the last page of each. The
    /// pool has `num_pages` pages of `page_size` slots.
    #[staticmethod]
    #[pyo3(signature = (qo_indptr, page_indptr, page_indices, last_page_len, *, page_size, num_pages))]
    fn paged(
        py: Python<'_>,
        qo_indptr: &Bound<'_, PyAny>,
        page_indptr: &Bound<'_, PyAny>,
        page_indices: &Bound<'_, PyAny>,
        last_page_len: &Bound<'_, PyAny>,
        page_size: u32,
        num_pages: u32,
    ) -> PyResult<Self> {
        call(py, || {
            let keys = Keys::Paged {
                indptr: line(page_indptr, "page_indptr")?,
                indices: line(page_indices, "page_indices")?,
                last_page_len: line(last_page_len, "last_page_len")?,
            };
            Ok(Batch { qo_indptr: line(qo_indptr, "qo_indptr")?, keys, page_size, num_pages })
        })
    }

    /// Keys in pages, with as many entries for each request, as vLLM has them.
    ///
    /// `block_table` is (requests, pages per request); `kv_lens` has the keys of each request, which decide how many of
    /// its entries are read.
    #[staticmethod]
    #[pyo3(signature = (qo_indptr, block_table, kv_lens, *, page_size, num_pages))]
    fn block_table(
        py: Python<'_>,
        qo_indptr: &Bound<'_, PyAny>,
        block_table: &Bound<'_, PyAny>,
        kv_lens: &Bound<'_, PyAny>,
        page_size: u32,
        num_pages: u32,
    ) -> PyResult<Self> {
        call(py, || {
            let kv_lens = line(kv_lens, "kv_lens")?;
            let (pages, shape) = numbers(block_table, "block_table")?;
            let max_pages = match shape.as_deref() {
                Some(&[requests, width]) if requests == kv_lens.len() => width,
                Some(shape) => {
                    let requests = kv_lens.len();
                    return Err(Failure::batch(format!("block_table has the shape {shape:?}; it has {requests} rows")));
                }
                None => return Err(Failure::batch("block_table is a list of numbers; it has a row for each request")),
            };
            let keys = Keys::BlockTable { pages, max_pages, kv_lens };
            Ok(Batch { qo_indptr: line(qo_indptr, "qo_indptr")?, keys, page_size, num_pages })
        })
    }

    fn __repr__(&self) -> String {
        let kind = match self.keys {
            Keys::Ragged { .. } => "ragged",
            Keys::Paged { .. } => "paged",
            Keys::BlockTable { .. } => "block table",
        };
        format!("<attn_rs.Batch of {} requests, {kind}>", self.qo_indptr.len().saturating_sub(1))
    }
}

impl Batch {
    pub(crate) fn batch(&self) -> attn::Batch<'_> {
        let Batch { qo_indptr, keys, page_size, num_pages } = self;
        let (page_size, num_pages) = (*page_size, *num_pages);
        match keys {
            Keys::Ragged { indptr } => attn::Batch::ragged(qo_indptr, indptr),
            Keys::Paged { indptr, indices, last_page_len } => {
                attn::Batch::paged(qo_indptr, &PageTable { indptr, indices, last_page_len, page_size, num_pages })
            }
            Keys::BlockTable { pages, max_pages, kv_lens } => {
                let table = BlockTable { pages, max_pages: *max_pages, kv_lens, page_size, num_pages };
                attn::Batch::block_table(qo_indptr, &table)
            }
        }
    }
}

/// The largest batch of a plan that is updated in place: bounds of the requests, of their queries and keys in all, of
/// the queries of one request, and the pool of pages.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct Capacity(pub(crate) BatchCapacity);

#[pymethods]
impl Capacity {
    /// `qo_tokens` is by default `requests`, one query each; `page_size` and `num_pages` are given for a paged batch.
    #[new]
    #[pyo3(signature = (requests, kv_tokens, *, qo_tokens=None, page_size=None, num_pages=None))]
    fn new(
        py: Python<'_>,
        requests: u32,
        kv_tokens: u32,
        qo_tokens: Option<u32>,
        page_size: Option<u32>,
        num_pages: Option<u32>,
    ) -> PyResult<Self> {
        call(py, || {
            let flat = match qo_tokens {
                None => BatchCapacity::decode(requests, kv_tokens),
                Some(qo_tokens) => BatchCapacity::new(requests, qo_tokens, kv_tokens),
            };
            match (page_size, num_pages) {
                (None, None) => Ok(Capacity(flat)),
                (Some(page_size), Some(num_pages)) => Ok(Capacity(flat.in_pages(page_size, num_pages))),
                _ => Err(Failure::argument("page_size and num_pages are given both or not at all")),
            }
        })
    }

    fn __repr__(&self) -> String {
        format!("<attn_rs.{:?}>", self.0)
    }
}
