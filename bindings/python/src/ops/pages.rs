//! Ops on whole pages: copy, swap, convert.

use attn::ops;
use pyo3::{prelude::*, types::PyDict};

use super::kv::{Names, POOLS};
use crate::error::Failure;
use crate::keywords::{Keywords, Memory, needed, op};
use crate::tensor::ANY;

const FROM: Names = ["from_k", "from_v", "from_k_side", "from_v_side"];
const TO: Names = ["to_k", "to_v", "to_k_side", "to_v_side"];
const HOST: Names = ["host_k", "host_v", "host_k_side", "host_v_side"];

/// Pairs of pages, on the host or on the device.
fn pairs<'py>(keywords: &mut Keywords<'py>) -> Result<ops::Array<'py, [i32; 2]>, Failure> {
    needed(keywords.array_in("pairs", &[ANY, 2], Memory::Any)?, "pairs")
}

/// Copies pages within pools.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn copy_pages(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "copy_pages", "k_pool", keywords, |keywords| {
        let layout = keywords.layout("kv_layout")?;
        let mut pools = keywords.kv_mut(POOLS, layout, Memory::Device)?;
        let (pairs, status) = (pairs(keywords)?, keywords.array_mut("status", &[ANY])?);
        keywords.launch(|stream| ops::copy_pages(stream, &mut pools, &pairs, status.as_ref()))
    })
}

/// Copies pages from one pool to another.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn copy_pages_between(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "copy_pages_between", "from_k", keywords, |keywords| {
        let (from, to) = (keywords.layout("from_layout")?, keywords.layout("to_layout")?);
        let from = keywords.kv(FROM, from, Memory::Device)?;
        let mut to = keywords.kv_mut(TO, to, Memory::Device)?;
        let (pairs, status) = (pairs(keywords)?, keywords.array_mut("status", &[ANY])?);
        keywords.launch(|stream| ops::copy_pages_between(stream, &from, &mut to, &pairs, status.as_ref()))
    })
}

/// Copies pages to pinned memory of the host.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn swap_out(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "swap_out", "k_pool", keywords, |keywords| {
        let (layout, of_host) = (keywords.layout("kv_layout")?, keywords.layout("host_layout")?);
        let from = keywords.kv(POOLS, layout, Memory::Device)?;
        let mut host = keywords.kv_mut(HOST, of_host, Memory::Host)?;
        let pairs = pairs(keywords)?;
        keywords.launch(|stream| ops::swap_out(stream, &from, &mut host, &pairs))
    })
}

/// Copies pages back from pinned memory of the host.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn swap_in(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "swap_in", "k_pool", keywords, |keywords| {
        let (layout, of_host) = (keywords.layout("kv_layout")?, keywords.layout("host_layout")?);
        let host = keywords.kv(HOST, of_host, Memory::Host)?;
        let mut to = keywords.kv_mut(POOLS, layout, Memory::Device)?;
        let pairs = pairs(keywords)?;
        keywords.launch(|stream| ops::swap_in(stream, &host, &mut to, &pairs))
    })
}

/// Converts x-packed `k` and `v` to pools.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn x_packed_to_pages(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "x_packed_to_pages", "k", keywords, |keywords| {
        let (k, v, layout) = (keywords.tensor("k")?, keywords.tensor("v")?, keywords.layout("kv_layout")?);
        let mut pools = keywords.kv_mut(POOLS, layout, Memory::Device)?;
        keywords.launch(|stream| ops::x_packed_to_pages(stream, &k, &v, &mut pools))
    })
}

/// Converts pools to x-packed `k` and `v`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn pages_to_x_packed(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "pages_to_x_packed", "k_pool", keywords, |keywords| {
        let layout = keywords.layout("kv_layout")?;
        let pools = keywords.kv(POOLS, layout, Memory::Device)?;
        let (k, v) = (keywords.tensor_mut("k")?, keywords.tensor_mut("v")?);
        keywords.launch(|stream| ops::pages_to_x_packed(stream, &pools, k, v))
    })
}
