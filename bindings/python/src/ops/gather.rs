//! Gathering the pages of requests.

use attn::KvScales;
use attn::ops::{Gather, gather_with};
use pyo3::{prelude::*, types::PyDict};

use super::kv::{Names, POOLS};
use crate::argument::{ATTENTION, Arg};
use crate::attention::Attention;
use crate::keywords::{Memory, needed, op};
use crate::kv_layout::KvLayout;
use crate::tensor::ANY;

const PACKED: Names = ["k", "v", "out_k_side", "out_v_side"];

/// Gathers the pages of requests into `k` and `v`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn gather(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "gather", "k_pool", keywords, |keywords| {
        let layout = keywords.layout("kv_layout")?;
        let attention = keywords.object("attention")?;
        let attention = attention.map(|of| of.extract::<Arg<PyRef<'_, Attention>>>()).transpose()?;
        let attention = attention.map(|of| of.get(py, "attention", ATTENTION)).transpose()?;
        let pools = keywords.kv(POOLS, layout, Memory::Device)?;
        let of_rows = if layout == KvLayout::Latent { layout } else { KvLayout::Nhd };
        let mut packed = keywords.kv_mut(PACKED, of_rows, Memory::Device)?;
        let ends = needed(keywords.array("kv_indptr", &[ANY])?, "kv_indptr")?;
        let rows = needed(keywords.page_table()?, "block_table")?;
        let scales = KvScales { k: keywords.scale("k_scale")?, v: keywords.scale("v_scale")? };
        let rows = Gather { scales, status: keywords.array_mut("status", &[ANY])?, ..Gather::new(ends, rows) };
        let transform = attention.as_ref().and_then(|attention| attention.transform.as_ref());
        keywords.launch(|stream| gather_with(stream, &pools, &mut packed, &rows, transform))
    })
}
