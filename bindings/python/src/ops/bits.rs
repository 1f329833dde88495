//! Packing masks into bits.

use attn::ops::{self, BitOrder};
use pyo3::{prelude::*, types::PyDict};

use crate::keywords::{needed, op};
use crate::tensor::ANY;

const ORDERS: [(&str, BitOrder); 2] = [("little", BitOrder::Little), ("big", BitOrder::Big)];

/// Packs `bools` into the bits of `out`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn packbits(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "packbits", "bools", keywords, |keywords| {
        let (bools, order) = (needed(keywords.array("bools", &[ANY])?, "bools")?, keywords.word("bitorder", &ORDERS)?);
        let mut out = needed(keywords.array_mut("out", &[ANY])?, "out")?;
        keywords.launch(|stream| ops::packbits(stream, &bools, order, &mut out))
    })
}

/// Packs the segments `indptr` of `bools` into the bits of `out`, and writes the prefix sums of their bytes.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn segment_packbits(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "segment_packbits", "bools", keywords, |keywords| {
        let (bools, order) = (needed(keywords.array("bools", &[ANY])?, "bools")?, keywords.word("bitorder", &ORDERS)?);
        let indptr = needed(keywords.array("indptr", &[ANY])?, "indptr")?;
        let mut out = needed(keywords.array_mut("out", &[ANY])?, "out")?;
        let mut ends = needed(keywords.array_mut("out_indptr", &[ANY])?, "out_indptr")?;
        keywords.launch(|stream| ops::segment_packbits(stream, &bools, &indptr, order, &mut out, &mut ends))
    })
}
