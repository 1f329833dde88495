//! Merging states over disjoint keys.

use attn::Out;
use attn::ops::{self, StateMut, StateRef};
use pyo3::{prelude::*, types::PyDict};

use crate::error::Failure;
use crate::keywords::{Keywords, Memory, op};
use crate::tensor::ANY;

fn state<'py>(keywords: &mut Keywords<'py>, o: &'static str, lse: &'static str) -> Result<StateRef<'py>, Failure> {
    Ok(StateRef { o: keywords.tensor(o)?, lse: keywords.tensor(lse)? })
}

fn out<'py>(keywords: &mut Keywords<'py>, lse: &'static str) -> Result<Out<'py>, Failure> {
    Ok(Out { lse: keywords.write(lse, Memory::Device)?, ..Out::new(keywords.tensor_mut("out")?) })
}

/// Merges `a`, `lse_a` and `b`, `lse_b` into `out` and `lse`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn merge_state(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "merge_state", "a", keywords, |keywords| {
        let (a, b) = (state(keywords, "a", "lse_a")?, state(keywords, "b", "lse_b")?);
        let out = out(keywords, "lse")?;
        keywords.launch(|stream| ops::merge_state(stream, &a, &b, out))
    })
}

/// Merges `b`, `lse_b` into `a`, `lse_a`, for the tokens of `mask`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn merge_state_in_place(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "merge_state_in_place", "a", keywords, |keywords| {
        let mut a = StateMut { o: keywords.tensor_mut("a")?, lse: keywords.tensor_mut("lse_a")? };
        let b = state(keywords, "b", "lse_b")?;
        let mask = keywords.array("mask", &[ANY])?;
        keywords.launch(|stream| ops::merge_state_in_place(stream, &mut a, &b, mask.as_ref()))
    })
}

/// Merges the states `o`, `lse` into `out` and `out_lse`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn merge_states(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "merge_states", "o", keywords, |keywords| {
        let states = state(keywords, "o", "lse")?;
        let out = out(keywords, "out_lse")?;
        keywords.launch(|stream| ops::merge_states(stream, &states, out))
    })
}

/// Adds `a` and `b` into `out`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn merge_sums(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "merge_sums", "a", keywords, |keywords| {
        let (a, b, out) = (keywords.tensor("a")?, keywords.tensor("b")?, keywords.tensor_mut("out")?);
        keywords.launch(|stream| ops::merge_sums(stream, &a, &b, out))
    })
}

/// Converts `lse` from natural log to base 2, in memory.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn lse_to_base_2(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "lse_to_base_2", "lse", keywords, |keywords| {
        let lse = keywords.tensor_mut("lse")?;
        keywords.launch(|stream| ops::lse_to_base_2(stream, lse))
    })
}

/// Converts `lse` from base 2 to natural log, in memory.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn lse_from_base_2(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "lse_from_base_2", "lse", keywords, |keywords| {
        let lse = keywords.tensor_mut("lse")?;
        keywords.launch(|stream| ops::lse_from_base_2(stream, lse))
    })
}
