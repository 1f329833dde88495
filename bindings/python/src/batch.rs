//! Batches, and the largest batch of a plan.

use attn::{BatchCapacity, BlockTable, CascadeLevel, CascadeLevelKv, PageTable};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PySequence, PyString};

use crate::argument::{Arg, BATCH, COUNT, optional};
use crate::element::Element;
use crate::error::{Failure, call};
use crate::location::Location;
use crate::producer::view;

enum Keys {
    Ragged { indptr: Vec<i32> },
    Paged { indptr: Vec<i32>, indices: Vec<i32>, last_page_len: Vec<i32> },
    BlockTable { pages: Vec<i32>, max_pages: usize, kv_lens: Vec<i32> },
    Levels(Vec<Py<Batch>>),
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

/// The most numbers of an array of a batch: 1 GiB of them. Arrays may repeat their elements and lists may lie about
/// their length, so what is allocated here is bounded before.
const MOST: usize = 1 << 28;

/// Numbers as they are read, of which there are not too many.
struct IntReader<'a> {
    name: &'a str,
    read: Vec<i32>,
}

impl IntReader<'_> {
    /// Room for `count` numbers in all.
    fn reserve(&mut self, count: usize) -> Result<(), Failure> {
        let name = self.name;
        if count > MOST {
            return Err(Failure::batch(format!("{name} has {count} numbers or more; a batch has at most {MOST}")));
        }
        let refused = |_| Failure::batch(format!("{name} has {count} numbers, for which there is no memory"));
        self.read.try_reserve_exact(count - self.read.len()).map_err(refused)
    }

    fn push(&mut self, number: i64) -> Result<(), Failure> {
        let (name, count) = (self.name, self.read.len());
        let narrow = i32::try_from(number);
        let narrow = narrow.map_err(|_| Failure::batch(format!("{name} has {number}; numbers are below 2^31")))?;
        if count == self.read.capacity() {
            self.reserve((2 * count).clamp(16, MOST.max(count + 1)))?;
        }
        self.read.push(narrow);
        Ok(())
    }

    /// Adds the numbers of a list; returns how many, or the first that is none.
    fn list<'py>(&mut self, list: &Bound<'py, PyAny>) -> Result<(usize, Option<Bound<'py, PyAny>>), Failure> {
        let (name, before) = (self.name, self.read.len());
        self.reserve(before.saturating_add(list.len()?))?;
        for number in list.try_iter()? {
            let number = number?;
            match number.extract::<i64>() {
                Ok(number) => self.push(number)?,
                Err(error) if error.is_instance_of::<PyOverflowError>(list.py()) => {
                    return Err(Failure::batch(format!("{name} has {number}; numbers are below 2^31")));
                }
                Err(_) => return Ok((self.read.len() - before, Some(number))),
            }
        }
        Ok((self.read.len() - before, None))
    }
}

/// Whole numbers of a list or of an array in host memory, in row-major order, and the shape of an array.
pub(crate) fn numbers(object: &Bound<'_, PyAny>, name: &str) -> Result<(Vec<i32>, Option<Vec<usize>>), Failure> {
    let mut numbers = IntReader { name, read: Vec::new() };
    if !object.hasattr("__dlpack__")? {
        let shape = listed(object, &mut numbers)?;
        return Ok((numbers.read, shape));
    }
    let array = view(object, name, None)?;
    if array.location != Location::Cpu {
        let location = array.location;
        return Err(Failure::batch(format!("{name} is on {location}; a batch is read on the host: pass {name}.cpu()")));
    }
    let (shape, strides) = (array.dims.shape(), array.dims.strides());
    let count = array.dims.count().unwrap_or(usize::MAX);
    numbers.reserve(count)?;
    for index in 0..count {
        let (mut offset, mut index) = (0isize, index);
        for (&length, &stride) in shape.iter().zip(strides).rev() {
            offset = offset.wrapping_add(((index % length) as isize).wrapping_mul(stride as isize));
            index /= length;
        }
        let at = (array.data as *const u8).wrapping_offset(offset.wrapping_mul(array.element.size() as isize));
        // SAFETY: the element of an index within the shape, in host memory that the caller's object keeps
        let number = unsafe {
            match array.element {
                Element::U8 => i64::from(at.read()),
                Element::I8 => i64::from(at.cast::<i8>().read()),
                Element::U16 => i64::from(at.cast::<u16>().read_unaligned()),
                Element::I16 => i64::from(at.cast::<i16>().read_unaligned()),
                Element::U32 => i64::from(at.cast::<u32>().read_unaligned()),
                Element::I32 => i64::from(at.cast::<i32>().read_unaligned()),
                Element::U64 => i64::try_from(at.cast::<u64>().read_unaligned()).unwrap_or(i64::MAX),
                Element::I64 => at.cast::<i64>().read_unaligned(),
                other => {
                    let of = other.name();
                    return Err(Failure::batch(format!("{name} is of {of}; it is of whole numbers, such as int32")));
                }
            }
        };
        numbers.push(number)?;
    }
    Ok((numbers.read, Some(shape.to_vec())))
}

/// Reads the numbers of a list, or those of a list of rows, of which there is a shape.
fn listed(object: &Bound<'_, PyAny>, numbers: &mut IntReader<'_>) -> Result<Option<Vec<usize>>, Failure> {
    let name = numbers.name;
    let wrong = |object: &Bound<'_, PyAny>| {
        let class = object.get_type().name()?.to_string();
        Ok(Failure::WrongType(format!(
            "{name} is of or has the type `{class}`; it is a list of whole numbers, or an array or a tensor of them"
        )))
    };
    let is_list =
        |object: &Bound<'_, PyAny>| object.cast::<PySequence>().is_ok() && !object.is_instance_of::<PyString>();
    if !is_list(object) {
        return wrong(object).and_then(Err);
    }
    let first = match numbers.list(object)? {
        (_, None) => return Ok(None),
        (0, Some(row)) => row,
        (_, Some(other)) => return wrong(&other).and_then(Err),
    };
    let (mut rows, mut width) = (0, None);
    for row in object.try_iter()? {
        let row = row?;
        if !is_list(&row) {
            return wrong(if rows == 0 { &first } else { &row }).and_then(Err);
        }
        let (count, other) = numbers.list(&row)?;
        if let Some(other) = other {
            return wrong(&other).and_then(Err);
        }
        if *width.get_or_insert(count) != count {
            return Err(Failure::batch(format!("{name} has rows of different lengths")));
        }
        rows += 1;
    }
    Ok(Some(vec![rows, width.unwrap_or(0)]))
}

/// Whole numbers of one dimension.
pub(crate) fn line(object: &Bound<'_, PyAny>, name: &str) -> Result<Vec<i32>, Failure> {
    match numbers(object, name)? {
        (line, Some(shape)) if shape.len() != 1 => Err(Failure::batch(format!(
            "{name} has the shape {shape:?} of {} numbers; it has one dimension",
            line.len()
        ))),
        (line, _) => Ok(line),
    }
}

/// Compressed rows with as many pages as the keys of each request need, of rows that may have more.
fn pages_of_lens(indptr: &[i32], indices: &[i32], lens: &[i32], page_size: u32) -> Result<Keys, Failure> {
    if indptr.len() != lens.len() + 1 {
        let (ends, requests) = (indptr.len(), lens.len());
        return Err(Failure::batch(format!(
            "page_indptr has {ends} numbers and kv_lens {requests}; one more is needed"
        )));
    }
    let mut rows = (vec![0], Vec::new(), Vec::new());
    for (request, (ends, &len)) in indptr.windows(2).zip(lens).enumerate() {
        let (count, size) = (i64::from(ends[1]) - i64::from(ends[0]), i64::from(page_size.max(1)));
        let need = (i64::from(len) + size - 1).div_euclid(size);
        if len < 0 || count < 0 || need > count {
            let of = format!("{len} keys and {count} pages of {page_size}");
            return Err(Failure::batch(format!("request {request} has {of}; it needs {need} or more")));
        }
        let begin = usize::try_from(ends[0]).unwrap_or(usize::MAX);
        let Some(pages) = begin.checked_add(need as usize).and_then(|end| indices.get(begin..end)) else {
            let (from, all) = (ends[0], indices.len());
            return Err(Failure::batch(format!("the {need} pages of request {request} begin at {from} of {all}")));
        };
        rows.1.extend_from_slice(pages);
        rows.0.push(rows.1.len() as i32);
        rows.2.push(if len == 0 { 1 } else { ((i64::from(len) - 1) % size + 1) as i32 });
    }
    Ok(Keys::Paged { indptr: rows.0, indices: rows.1, last_page_len: rows.2 })
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
    /// pool has `num_pages` pages of `page_size` slots. With `kv_lens` in place of `last_page_len`, the keys of each
    /// request, a request may have more pages than its keys need.
    #[staticmethod]
    #[pyo3(signature = (qo_indptr, page_indptr, page_indices, last_page_len=None, *, page_size, num_pages,
        kv_lens=None))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn paged(
        py: Python<'_>,
        qo_indptr: &Bound<'_, PyAny>,
        page_indptr: &Bound<'_, PyAny>,
        page_indices: &Bound<'_, PyAny>,
        last_page_len: Option<&Bound<'_, PyAny>>,
        page_size: Arg<u32>,
        num_pages: Arg<u32>,
        kv_lens: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        call(py, || {
            let (page_size, num_pages) =
                (page_size.get(py, "page_size", COUNT)?, num_pages.get(py, "num_pages", COUNT)?);
            let (indptr, indices) = (line(page_indptr, "page_indptr")?, line(page_indices, "page_indices")?);
            let keys = match (last_page_len, kv_lens) {
                (Some(last), None) => Keys::Paged { indptr, indices, last_page_len: line(last, "last_page_len")? },
                (None, Some(lens)) => pages_of_lens(&indptr, &indices, &line(lens, "kv_lens")?, page_size)?,
                (given, _) => {
                    let got = if given.is_some() { "both" } else { "neither" };
                    return Err(Failure::argument(format!(
                        "a paged batch has last_page_len or kv_lens: {got} are given"
                    )));
                }
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
        page_size: Arg<u32>,
        num_pages: Arg<u32>,
    ) -> PyResult<Self> {
        call(py, || {
            let (page_size, num_pages) =
                (page_size.get(py, "page_size", COUNT)?, num_pages.get(py, "num_pages", COUNT)?);
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

    /// Keys that neighbouring requests share, level by level: a prompt that all share, then those of each group, then
    /// the request's own. Kernels read shared keys once for all requests of a group, where that is predicted faster.
    ///
    /// A level is a `Batch` whose requests are its groups: `Batch.ragged(qo_indptr, kv_indptr)`, whose prefix sums of
    /// keys need not begin at 0, or `Batch.paged(..)`; all levels are of one kind. The `qo_indptr` of a level has some
    /// of the numbers of that of the batch, and groups of a level are within groups of the level before. The keys of a
    /// request are those of its groups, in the order of levels. A plan with a capacity needs `Capacity(.., levels=)`.
    #[staticmethod]
    fn cascade(py: Python<'_>, qo_indptr: &Bound<'_, PyAny>, levels: Arg<Vec<Arg<Py<Batch>>>>) -> PyResult<Self> {
        call(py, || {
            let mut checked = Vec::new();
            for level in levels.get(py, "levels", "a list of `Batch`es: `Batch.ragged(..)` or `Batch.paged(..)`")? {
                let name = format!("levels[{}]", checked.len());
                let level = level.get(py, &name, BATCH)?;
                if level.get().level().is_none() {
                    let kind = level.get().kind();
                    return Err(Failure::batch(format!("{name} is a {kind}; a level is ragged or paged")));
                }
                checked.push(level);
            }
            let keys = Keys::Levels(checked);
            Ok(Batch { qo_indptr: line(qo_indptr, "qo_indptr")?, keys, page_size: 0, num_pages: 0 })
        })
    }

    fn __repr__(&self) -> String {
        let kind = self.kind();
        format!("<attn_rs.Batch of {} requests, {kind}>", self.qo_indptr.len().saturating_sub(1))
    }
}

impl Batch {
    fn kind(&self) -> &'static str {
        match self.keys {
            Keys::Ragged { .. } => "ragged",
            Keys::Paged { .. } => "paged",
            Keys::BlockTable { .. } => "block table",
            Keys::Levels(_) => "cascade",
        }
    }

    /// As a level of a cascade, which is ragged or paged.
    fn level(&self) -> Option<CascadeLevel<'_>> {
        let &Batch { ref qo_indptr, ref keys, page_size, num_pages } = self;
        let kv = match keys {
            Keys::Ragged { indptr } => CascadeLevelKv::Ragged(indptr),
            Keys::Paged { indptr, indices, last_page_len } => {
                CascadeLevelKv::Paged(PageTable { indptr, indices, last_page_len, page_size, num_pages })
            }
            Keys::BlockTable { .. } | Keys::Levels(_) => return None,
        };
        Some(CascadeLevel { qo_indptr, kv })
    }

    /// Calls `with` with the batch of the library.
    pub(crate) fn with_batch<T>(&self, with: impl FnOnce(&attn::Batch<'_>) -> T) -> T {
        let &Batch { ref qo_indptr, ref keys, page_size, num_pages } = self;
        let levels: Vec<CascadeLevel<'_>>;
        with(&match keys {
            Keys::Ragged { indptr } => attn::Batch::ragged(qo_indptr, indptr),
            Keys::Paged { indptr, indices, last_page_len } => {
                attn::Batch::paged(qo_indptr, &PageTable { indptr, indices, last_page_len, page_size, num_pages })
            }
            Keys::BlockTable { pages, max_pages, kv_lens } => {
                let table = BlockTable { pages, max_pages: *max_pages, kv_lens, page_size, num_pages };
                attn::Batch::block_table(qo_indptr, &table)
            }
            Keys::Levels(of_levels) => {
                levels = of_levels.iter().filter_map(|level| level.get().level()).collect();
                attn::Batch::cascade(qo_indptr, &levels)
            }
        })
    }
}

/// The largest batch of a plan that is updated in place: bounds of the requests, of their queries and keys in all, of
/// the queries of one request, and the pool of pages.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct Capacity(pub(crate) BatchCapacity);

#[pymethods]
impl Capacity {
    /// `qo_len` bounds the queries of one request: it is by default `qo_tokens`, or 1 where that is not given either.
    /// `qo_tokens` is by default `requests * qo_len`. `page_size` and `num_pages` are given for a paged batch. `levels`
    /// are those of a cascade; `kv_memory_tokens` are the tokens of ragged k and v where they are other than
    /// `kv_tokens`, which counts a key that requests share once for each.
    #[new]
    #[pyo3(signature = (requests, kv_tokens, *, qo_tokens=None, page_size=None, num_pages=None, qo_len=None,
        levels=None, kv_memory_tokens=None))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn new(
        py: Python<'_>,
        requests: Arg<u32>,
        kv_tokens: Arg<u32>,
        qo_tokens: Option<Arg<u32>>,
        page_size: Option<Arg<u32>>,
        num_pages: Option<Arg<u32>>,
        qo_len: Option<Arg<u32>>,
        levels: Option<Arg<u32>>,
        kv_memory_tokens: Option<Arg<u32>>,
    ) -> PyResult<Self> {
        call(py, || {
            let (requests, kv_tokens) = (requests.get(py, "requests", COUNT)?, kv_tokens.get(py, "kv_tokens", COUNT)?);
            let count = |of, name| optional(of, py, name, COUNT);
            let [qo_tokens, page_size, num_pages] =
                [count(qo_tokens, "qo_tokens")?, count(page_size, "page_size")?, count(num_pages, "num_pages")?];
            let [qo_len, levels] = [count(qo_len, "qo_len")?, count(levels, "levels")?];
            let kv_memory_tokens = count(kv_memory_tokens, "kv_memory_tokens")?;
            let qo_len = qo_len.unwrap_or(qo_tokens.unwrap_or(1));
            let qo_tokens = qo_tokens.unwrap_or(requests.saturating_mul(qo_len));
            let flat = BatchCapacity { qo_len, ..BatchCapacity::new(requests, qo_tokens, kv_tokens) };
            let capacity = match (page_size, num_pages) {
                (None, None) => BatchCapacity { kv_memory_tokens, ..flat },
                (Some(_), Some(_)) if kv_memory_tokens.is_some() => {
                    let pool = "the tokens of paged ones are those of the pool";
                    return Err(Failure::argument(format!("kv_memory_tokens are those of ragged k and v; {pool}")));
                }
                (Some(page_size), Some(num_pages)) => flat.in_pages(page_size, num_pages),
                _ => return Err(Failure::argument("page_size and num_pages are given both or not at all")),
            };
            Ok(Capacity(capacity.in_levels(levels.unwrap_or(1))))
        })
    }

    fn __repr__(&self) -> String {
        format!("<attn_rs.{:?}>", self.0)
    }
}
