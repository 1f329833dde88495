//! Sampling and verification of drafts, on the caller's tensors.

use attn::ops::{Array, ArrayMut};
use attn::sampling::{
    self, ChainDrafts, ChainOut, FilterOrder, LogProbs, Penalties, PerRow, SampleOut, SamplingParams, TopLogProbs,
    TreeDrafts, TreeOut,
};
use attn::{Error, Stream, TensorMut, TensorRef};
use pyo3::{prelude::*, types::PyDict};

use crate::argument::{Arg, Flag, NUMBER, TEXT};
use crate::element::Element;
use crate::engine::engine;
use crate::error::{Failure, call};
use crate::keywords::{self, Entry, Keywords, Memory, needed, op};
use crate::tensor::ANY;

const SEED: &str = "a whole number below 2^64";
const TOP_K: &str = "a whole number below 2^31";
const ORDERS: [(&str, FilterOrder); 2] = [("top_k_first", FilterOrder::TopKFirst), ("joint", FilterOrder::Joint)];
const LOG_PROBS: [(&str, LogProbs); 2] = [("scaled", LogProbs::Scaled), ("kept", LogProbs::Kept)];

/// Reads what rows of logits or probabilities are filtered by, and how many rows the results have.
fn filters<'py>(
    keywords: &mut Keywords<'py>,
    [sources, vocab]: [usize; 2],
    of_logits: bool,
) -> Result<(usize, SamplingParams<'py>), Failure> {
    let defaults = SamplingParams::default();
    let indices: Option<Array<'_, i32>> = keywords.array("indices", &[ANY])?;
    let rows = indices.as_ref().map_or(sources, Array::len);
    let temperature = if of_logits { keywords.per_row("temperature", rows, NUMBER)? } else { None };
    let params = SamplingParams {
        temperature: temperature.unwrap_or(defaults.temperature),
        top_k: keywords.per_row("top_k", rows, TOP_K)?.unwrap_or(defaults.top_k),
        top_p: keywords.per_row("top_p", rows, NUMBER)?.unwrap_or(defaults.top_p),
        min_p: keywords.per_row("min_p", rows, NUMBER)?.unwrap_or(defaults.min_p),
        order: keywords.word("order", &ORDERS)?,
        token_mask: keywords.array("token_mask", &[rows, vocab.div_ceil(32)])?,
        indices,
        ..defaults
    };
    Ok((rows, params))
}

/// Reads penalties, which are off unless one is given.
fn penalties<'py>(keywords: &mut Keywords<'py>, rows: usize) -> Result<Option<Penalties<'py>>, Failure> {
    let defaults = Penalties::default();
    let mut read = |name| keywords.per_row(name, rows, NUMBER);
    Ok(match (read("repetition")?, read("presence")?, read("frequency")?) {
        (None, None, None) => None,
        (repetition, presence, frequency) => Some(Penalties {
            repetition: repetition.unwrap_or(defaults.repetition),
            presence: presence.unwrap_or(defaults.presence),
            frequency: frequency.unwrap_or(defaults.frequency),
        }),
    })
}

fn seeds<'py>(keywords: &mut Keywords<'py>, rows: usize) -> Result<PerRow<'py, u64>, Failure> {
    Ok(keywords.per_row("seeds", rows, SEED)?.unwrap_or(PerRow::All(0)))
}

/// An array that the call writes.
fn output<'py, T: Entry>(
    keywords: &mut Keywords<'py>,
    name: &'static str,
    shape: &[usize],
) -> Result<ArrayMut<'py, T>, Failure> {
    needed(keywords.array_mut(name, shape)?, name)
}

type Sample = fn(&Stream, &TensorRef<'_>, &SamplingParams<'_>, &mut SampleOut<'_>) -> Result<(), Error>;

fn draw(keywords: &mut Keywords<'_>, name: &'static str, of_logits: bool, run: Sample) -> Result<(), Failure> {
    let (tensor, shape) = keywords.of_rank(name, ["rows", "vocab"])?;
    let (rows, filters) = filters(keywords, shape, of_logits)?;
    let penalties = if of_logits { penalties(keywords, rows)? } else { None };
    let (seeds, log_probs) = (seeds(keywords, rows)?, keywords.word("log_probs_of", &LOG_PROBS)?);
    let params = SamplingParams { penalties, seeds, log_probs, ..filters };
    let (top_ids, count) = (keywords.array_mut("top_ids", &[rows, ANY])?, keywords.length("top_ids", 1));
    let top_log_probs = keywords.array_mut("top_log_probs", &[rows, count])?;
    let top = match top_ids {
        None => None,
        Some(ids) => Some(TopLogProbs { ids, log_probs: needed(top_log_probs, "top_log_probs")?, count }),
    };
    let mut out = SampleOut {
        ids: output(keywords, "out", &[rows])?,
        positions: output(keywords, "positions", &[rows])?,
        counts: keywords.array_mut("counts", &[rows, shape[1]])?,
        log_probs: keywords.array_mut("log_probs", &[rows])?,
        probs: keywords.write("out_probs", Memory::Device)?,
        top,
    };
    keywords.launch(|stream| run(stream, &tensor, &params, &mut out))
}

/// Draws a token of each row of `logits` into `out`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn sample(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "sample", "logits", keywords, |keywords| draw(keywords, "logits", true, sampling::sample))
}

/// Draws a token of each row of `probs` into `out`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn sample_probs(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "sample_probs", "probs", keywords, |keywords| draw(keywords, "probs", false, sampling::sample_probs))
}

type Keep = fn(&Stream, &TensorRef<'_>, &SamplingParams<'_>, TensorMut<'_>) -> Result<(), Error>;

fn keep(keywords: &mut Keywords<'_>, name: &'static str, of_logits: bool, run: Keep) -> Result<(), Failure> {
    let (tensor, shape) = keywords.of_rank(name, ["rows", "vocab"])?;
    let (_, params) = filters(keywords, shape, of_logits)?;
    let out = keywords.tensor_mut("out")?;
    keywords.launch(|stream| run(stream, &tensor, &params, out))
}

/// Writes the probabilities of `logits` to `out`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn softmax(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "softmax", "logits", keywords, |keywords| keep(keywords, "logits", true, sampling::softmax))
}

/// Writes `probs`, normalised after the filters, to `out`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn renorm_probs(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "renorm_probs", "probs", keywords, |keywords| keep(keywords, "probs", false, sampling::renorm_probs))
}

/// Writes the `logits` that the filters keep to `out`.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn mask_logits(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "mask_logits", "logits", keywords, |keywords| keep(keywords, "logits", true, sampling::mask_logits))
}

/// Verifies chains of drafts.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn verify_chain(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "verify_chain", "draft_probs", keywords, |keywords| {
        let (draft_probs, [requests, count, _]) = keywords.of_rank("draft_probs", ["requests", "drafts", "vocab"])?;
        let drafts = ChainDrafts {
            draft_probs,
            draft_ids: needed(keywords.array("draft_ids", &[requests, count])?, "draft_ids")?,
            target_probs: keywords.tensor("target_probs")?,
            seeds: seeds(keywords, requests)?,
        };
        let mut out = ChainOut {
            ids: output(keywords, "out", &[requests, count + 1])?,
            accepted: output(keywords, "accepted", &[requests])?,
            emitted: output(keywords, "emitted", &[requests])?,
            positions: output(keywords, "positions", &[requests])?,
        };
        keywords.launch(|stream| sampling::verify_chain(stream, &drafts, &mut out))
    })
}

/// Verifies trees of drafts.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn verify_tree(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    op(py, "verify_tree", "target_probs", keywords, |keywords| {
        let (target_probs, [requests, nodes, _]) = keywords.of_rank("target_probs", ["requests", "nodes", "vocab"])?;
        let mut nodes_of = |name| needed(keywords.array(name, &[requests, nodes])?, name);
        let (draft_ids, retrieve_index) = (nodes_of("draft_ids")?, nodes_of("retrieve_index")?);
        let retrieve_next_token = nodes_of("retrieve_next_token")?;
        let retrieve_next_sibling = nodes_of("retrieve_next_sibling")?;
        let drafts = TreeDrafts {
            draft_ids,
            retrieve_index,
            retrieve_next_token,
            retrieve_next_sibling,
            target_probs,
            threshold_single: keywords.number("threshold_single", NUMBER)?.unwrap_or(1.0),
            threshold_acc: keywords.number("threshold_acc", NUMBER)?.unwrap_or(1.0),
            seeds: seeds(keywords, requests)?,
        };
        let mut out = TreeOut {
            ids: output(keywords, "out", &[requests.saturating_mul(nodes)])?,
            accept_index: output(keywords, "accept_index", &[requests, nodes])?,
            accepted: output(keywords, "accepted", &[requests])?,
            positions: output(keywords, "positions", &[requests])?,
        };
        keywords.launch(|stream| sampling::verify_tree(stream, &drafts, &mut out))
    })
}

/// Prepares sampling on a device from logits or probabilities of a type, and verification.
#[pyfunction]
pub(crate) fn prepare_sampling(py: Python<'_>, dtype: Arg<&str>, probs: Flag, device: Arg<&str>) -> PyResult<()> {
    call(py, || {
        let of = Element::parse(dtype.get(py, "dtype", TEXT)?, "dtype")?.dtype("dtype")?;
        let (probs, location) = (probs.get(py, "probs")?, keywords::device(py, device)?);
        py.detach(|| {
            let engine = engine(location)?;
            match probs {
                true => sampling::prepare_probs(&engine, of)?,
                false => sampling::prepare(&engine, of)?,
            }
            Ok(sampling::prepare_verify(&engine)?)
        })
    })
}
