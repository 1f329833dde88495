//! Indexers of sparse attention, on the caller's tensors.

use attn::indexer::{self, IndexKeys, IndexQueries, ScoresMut, TopKLists, Visible};
use pyo3::{prelude::*, types::PyDict};

use crate::argument::{Arg, COUNT, TEXT};
use crate::element::Element;
use crate::engine::engine;
use crate::error::{Failure, call};
use crate::keywords::{self, Keywords, needed, op};
use crate::tensor::ANY;

const VISIBLE: [(&str, Visible<'_>); 2] = [("causal", Visible::Causal), ("all", Visible::All)];

fn queries<'py>(keywords: &mut Keywords<'py>) -> Result<IndexQueries<'py>, Failure> {
    let (q, [tokens, ..]) = keywords.of_rank("q", ["query tokens", "index heads", "dim"])?;
    let qo_indptr = needed(keywords.array("qo_indptr", &[ANY])?, "qo_indptr")?;
    let visible = match keywords.is_array("visible")? {
        true => Visible::Counts(needed(keywords.array("visible", &[tokens])?, "visible")?),
        false => keywords.word("visible", &VISIBLE)?,
    };
    Ok(IndexQueries { q, qo_indptr, visible })
}

fn keys<'py>(keywords: &mut Keywords<'py>) -> Result<IndexKeys<'py>, Failure> {
    let (keys, indptr) = (keywords.tensor("keys")?, keywords.array("kv_indptr", &[ANY])?);
    match (indptr, keywords.page_table()?, keywords.array("kv_lens", &[ANY])?) {
        (Some(kv_indptr), None, None) => Ok(IndexKeys::Ragged { keys, kv_indptr }),
        (None, Some(rows), Some(kv_lens)) => Ok(IndexKeys::Paged { keys, rows, kv_lens }),
        _ => Err(Failure::argument(
            "keys are given by `kv_indptr` alone, or by `kv_lens` with `block_table` or with `page_indptr` and \
             `page_indices`",
        )),
    }
}

fn scores<'py>(keywords: &mut Keywords<'py>) -> Result<ScoresMut<'py>, Failure> {
    let (scores, tokens) = (keywords.tensor_mut("scores")?, keywords.length("q", 0));
    let counts = needed(keywords.array_mut("counts", &[tokens])?, "counts")?;
    Ok(ScoresMut { scores, counts, status: keywords.array_mut("status", &[ANY])? })
}

/// Writes the scores of keys.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn index_scores(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "index_scores", "q", keywords, |keywords| {
        let (queries, weights) = (queries(keywords)?, keywords.tensor("weights")?);
        let (keys, mut out) = (keys(keywords)?, scores(keywords)?);
        keywords.launch(|stream| indexer::index_scores(stream, &queries, &weights, &keys, &mut out))
    })
}

/// Writes the scores of blocks of keys.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn block_scores(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "block_scores", "q", keywords, |keywords| {
        let (queries, keys) = (queries(keywords)?, keys(keywords)?);
        let size = needed(keywords.number("block_size", COUNT)?, "block_size")?;
        let mut out = scores(keywords)?;
        keywords.launch(|stream| indexer::block_scores(stream, &queries, &keys, size, &mut out))
    })
}

/// Writes the lists of the keys with the largest scores.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn select_tokens(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "select_tokens", "scores", keywords, |keywords| {
        let (scores, [rows, _]) = keywords.of_rank("scores", ["query tokens", "keys"])?;
        let counts = needed(keywords.array("counts", &[rows])?, "counts")?;
        let lists = needed(keywords.array_mut("lists", &[rows, ANY])?, "lists")?;
        let lens = needed(keywords.array_mut("list_lens", &[rows])?, "list_lens")?;
        let mut out = TopKLists::new(lists, lens);
        keywords.launch(|stream| indexer::select_tokens(stream, &scores, &counts, &mut out))
    })
}

/// Writes the lists of the blocks with the largest scores.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn select_pages(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "select_pages", "scores", keywords, |keywords| {
        let (scores, [tokens, heads, _]) = keywords.of_rank("scores", ["query tokens", "heads", "blocks"])?;
        let counts = needed(keywords.array("counts", &[tokens])?, "counts")?;
        let [first, last] = [keywords.number("first", COUNT)?, keywords.number("last", COUNT)?];
        let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
        let lists = needed(keywords.array_mut("lists", &[tokens, heads, ANY])?, "lists")?;
        let lens = needed(keywords.array_mut("list_lens", &[tokens, heads])?, "list_lens")?;
        let mut out = TopKLists::new(lists, lens);
        keywords.launch(|stream| indexer::select_pages(stream, &scores, &counts, first, last, &mut out))
    })
}

/// Prepares an indexer of queries of a type and shape on a device.
#[pyfunction]
pub(crate) fn prepare_indexer(
    py: Python<'_>,
    dtype: Arg<&str>,
    heads: Arg<usize>,
    dim: Arg<usize>,
    device: Arg<&str>,
) -> PyResult<()> {
    call(py, || {
        let of = Element::parse(dtype.get(py, "dtype", TEXT)?, "dtype")?.dtype("dtype")?;
        let (heads, dim) = (heads.get(py, "heads", COUNT)?, dim.get(py, "dim", COUNT)?);
        let location = keywords::device(py, device)?;
        py.detach(|| Ok(indexer::prepare(&engine(location)?, of, heads, dim)?))
    })
}
