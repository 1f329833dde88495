//! Builders of block-sparse variants: the expression and the parameters of a variant, from arrays of blocks.

use attn::lang::{ParamValue, VariantParams};
use attn::stock::block_sparse::{BlockMap, Bsr, BsrMask, VariableBlocks};
use attn::stock::{BlockSparse, BlockSparseMasked, PageList};
use pyo3::types::{PyDict, PyList};
use pyo3::{IntoPyObjectExt, prelude::*};

use crate::argument::{Arg, optional};
use crate::array::{host_bytes, packed_bits};
use crate::batch::{line, numbers};
use crate::element::Element;
use crate::error::{Failure, call};
use crate::producer::view;

/// An expression, and its parameters by name: arguments of `Plan` and `attention`.
type Parts<'py> = (&'static str, Bound<'py, PyDict>);

/// An array whose type is read later.
type Object<'py> = Bound<'py, PyAny>;

const BLOCK: &str = "a pair of whole numbers, the queries and the keys of a block";

fn object<'py>(py: Python<'py>, value: ParamValue) -> PyResult<Object<'py>> {
    match value {
        ParamValue::Bool(x) => x.into_bound_py_any(py),
        ParamValue::Int(x) => x.into_bound_py_any(py),
        ParamValue::Float(x) => x.into_bound_py_any(py),
        ParamValue::List(values) => {
            let values = values.into_iter().map(|value| object(py, value)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, values)?.into_any())
        }
    }
}

/// The parts of a variant, unless an array of it is malformed.
fn parts<'py>(
    py: Python<'py>,
    name: &'static str,
    variant: Result<impl VariantParams, impl std::error::Error>,
) -> Result<Parts<'py>, Failure> {
    let params = PyDict::new(py);
    for (field, value) in variant.map_err(|error| Failure::argument(error.to_string()))?.to_values().0 {
        params.set_item(format!("{name}.{field}"), object(py, value)?)?;
    }
    Ok((name, params))
}

/// Bools of an array in host memory, and its shape.
fn bools(object: &Object<'_>, name: &str) -> Result<(Vec<bool>, Vec<usize>), Failure> {
    let view = view(object, name, None)?;
    let bytes = host_bytes(&view, view.dims.shape().len(), Element::Bool, name)?;
    Ok((bytes.into_iter().map(|byte| byte != 0).collect(), view.dims.shape().to_vec()))
}

/// A block-sparse matrix.
struct Matrix {
    indptr: Vec<i32>,
    indices: Vec<i32>,
    mask: Option<Mask>,
}

/// The logits that are attended to within the blocks of a matrix.
enum Mask {
    Bools(Vec<bool>),
    Packed { bytes: Vec<u8>, indptr: Vec<i32> },
}

/// The arrays of a matrix: where rows begin, the columns of each, and a mask or a pair of packed bits and where rows
/// begin in them.
type Arrays<'py> = (Object<'py>, Object<'py>, Option<Object<'py>>);

impl Matrix {
    fn read((indptr, indices, mask): &Arrays<'_>) -> Result<Self, Failure> {
        let read = |mask: &Object<'_>| {
            Ok::<_, Failure>(match mask.extract::<(Object<'_>, Object<'_>)>() {
                Ok((bits, indptr)) => {
                    Mask::Packed { bytes: packed_bits(&bits, "mask")?, indptr: line(&indptr, "mask_indptr")? }
                }
                Err(_) => Mask::Bools(bools(mask, "mask")?.0),
            })
        };
        let mask = mask.as_ref().map(read).transpose()?;
        Ok(Matrix { indptr: line(indptr, "indptr")?, indices: line(indices, "indices")?, mask })
    }

    fn bsr(&self, block: [usize; 2], columns: usize) -> Bsr<'_> {
        Bsr { block, columns, indptr: &self.indptr, indices: &self.indices }
    }

    fn masked(&self, block: [usize; 2], columns: usize) -> Option<(Bsr<'_>, BsrMask<'_>)> {
        let mask = match self.mask.as_ref()? {
            Mask::Bools(bools) => BsrMask::Bools(bools),
            Mask::Packed { bytes, indptr } => BsrMask::Packed { bytes, indptr },
        };
        Some((self.bsr(block, columns), mask))
    }
}

/// `block_sparse` of matrices, each of which has `(indptr, indices, mask)`: those of each request, with its columns.
/// With masks it is `block_sparse_masked`.
#[pyfunction]
pub(crate) fn sparse_bsr<'py>(
    py: Python<'py>,
    requests: Arg<Vec<Vec<Arrays<'py>>>>,
    block: Arg<[usize; 2]>,
    columns: Arg<Vec<usize>>,
) -> PyResult<Parts<'py>> {
    call(py, || {
        let of_requests = "for each request a list of matrices, (indptr, indices) or (indptr, indices, mask)";
        let (requests, block) = (requests.get(py, "requests", of_requests)?, block.get(py, "block", BLOCK)?);
        let columns = columns.get(py, "columns", "the blocks of keys of each request, whole numbers")?;
        if columns.len() != requests.len() {
            let (columns, requests) = (columns.len(), requests.len());
            return Err(Failure::argument(format!("columns has {columns} numbers for {requests} requests")));
        }
        let read = |request: &Vec<Arrays<'_>>| request.iter().map(Matrix::read).collect::<Result<Vec<_>, _>>();
        let requests = requests.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let of_each = requests.iter().zip(columns);
        if requests.iter().flatten().all(|matrix| matrix.mask.is_none()) {
            let matrices: Vec<Vec<_>> = of_each
                .map(|(request, columns)| request.iter().map(|matrix| matrix.bsr(block, columns)).collect())
                .collect();
            let matrices: Vec<_> = matrices.iter().map(Vec::as_slice).collect();
            return parts(py, "block_sparse", BlockSparse::from_bsr(&matrices));
        }
        let matrices: Option<Vec<Vec<_>>> = of_each
            .map(|(request, columns)| request.iter().map(|matrix| matrix.masked(block, columns)).collect())
            .collect();
        let some = || Failure::argument("some matrices have masks and others have none; give one to each, or to none");
        let matrices = matrices.ok_or_else(some)?;
        let matrices: Vec<_> = matrices.iter().map(Vec::as_slice).collect();
        parts(py, "block_sparse_masked", BlockSparseMasked::from_bsr(&matrices))
    })
}

/// `block_sparse` of a table of blocks for each request: bools of (rows, columns), or of (KV heads, rows, columns).
#[pyfunction]
pub(crate) fn sparse_block_map<'py>(
    py: Python<'py>,
    requests: Arg<Vec<Object<'py>>>,
    block: Arg<[usize; 2]>,
) -> PyResult<Parts<'py>> {
    call(py, || {
        let requests = requests.get(py, "requests", "a list of tables, arrays of bool")?;
        let block = block.get(py, "block", BLOCK)?;
        let tables = requests.iter().map(|table| bools(table, "a table")).collect::<Result<Vec<_>, _>>()?;
        let maps = tables.iter().map(|(attends, shape)| {
            let [heads, rows, columns] = match shape[..] {
                [rows, columns] => [1, rows, columns],
                [heads, rows, columns] => [heads, rows, columns],
                _ => {
                    let of = "(rows, columns) or (KV heads, rows, columns)";
                    return Err(Failure::tensor(format!("a table has the shape {shape:?}; it is {of}")));
                }
            };
            Ok(BlockMap { block, heads, rows, columns, attends })
        });
        let maps = maps.collect::<Result<Vec<_>, _>>()?;
        parts(py, "block_sparse", BlockSparse::from_block_map(&maps))
    })
}

/// `block_sparse` of blocks of different sizes, of one request; with a `block`, `block_sparse_masked` of blocks of that
/// size.
#[pyfunction]
#[pyo3(signature = (attends, row_sizes, column_sizes, block=None))]
pub(crate) fn sparse_variable_blocks<'py>(
    py: Python<'py>,
    attends: &Object<'py>,
    row_sizes: &Object<'py>,
    column_sizes: &Object<'py>,
    block: Option<Arg<[usize; 2]>>,
) -> PyResult<Parts<'py>> {
    call(py, || {
        let (attends, shape) = bools(attends, "attends")?;
        let [heads, rows, columns] = shape[..] else {
            let of = "(KV heads, rows, columns)";
            return Err(Failure::tensor(format!("attends has the shape {shape:?}; it is {of}")));
        };
        let (row_sizes, _) = numbers(row_sizes, "row_sizes")?;
        let (column_sizes, _) = numbers(column_sizes, "column_sizes")?;
        let (attends, row_sizes, column_sizes) = (&attends[..], &row_sizes[..], &column_sizes[..]);
        let blocks = VariableBlocks { heads, rows, columns, attends, row_sizes, column_sizes };
        match optional(block, py, "block", BLOCK)? {
            None => parts(py, "block_sparse", BlockSparse::variable(&blocks)),
            Some(block) => parts(py, "block_sparse_masked", BlockSparseMasked::variable(&blocks, block)),
        }
    })
}

/// `page_list` of the pages of each request and KV head.
#[pyfunction]
pub(crate) fn sparse_page_list<'py>(
    py: Python<'py>,
    lists: Arg<Vec<Vec<Vec<i32>>>>,
    page_size: Arg<i32>,
    max_pages: Arg<i32>,
) -> PyResult<Parts<'py>> {
    call(py, || {
        let lists = lists.get(py, "lists", "for each request, and each KV head, a list of pages")?;
        let count = |of: Arg<i32>, name| of.get(py, name, "a whole number");
        let (page_size, max_pages) = (count(page_size, "page_size")?, count(max_pages, "max_pages")?);
        parts(py, "page_list", PageList::from_lists(page_size, max_pages, &lists))
    })
}
