//! attn-rs for Python: the module `attn_rs._native`, on which the package `attn_rs` is built.
//!
//! Tensors are the caller's. Those of torch are read through their attributes, which is faster, and all others through
//! DLPack; neither is copied. Everything that waits or computes on the host runs without the interpreter's lock. Errors
//! are the classes of `attn_rs._errors`, one for each [`attn::ErrorKind`], and panics are among them.

mod append;
mod argument;
mod array;
mod attention;
mod batch;
mod content;
mod device_batch;
mod dims;
mod dlpack;
mod element;
mod engine;
mod error;
mod head_parallel;
mod indexer;
mod keywords;
mod kv_layout;
mod location;
mod ops;
mod parallel;
mod params;
mod plan;
mod producer;
mod sampling;
mod scale;
mod sparse;
mod tensor;
mod torch;
mod variants;

use pyo3::prelude::*;

/// The native part of `attn_rs`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    variants::register();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<attention::Attention>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::Capacity>()?;
    module.add_class::<device_batch::DeviceBatch>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<parallel::Communicator>()?;
    module.add_class::<parallel::DecodeContextParallel>()?;
    module.add_class::<head_parallel::HeadParallel>()?;
    module.add_class::<parallel::PrefillContextParallel>()?;
    module.add_function(wrap_pyfunction!(append::append, module)?)?;
    module.add_function(wrap_pyfunction!(engine::describe, module)?)?;
    module.add_function(wrap_pyfunction!(engine::load_costs, module)?)?;
    module.add_function(wrap_pyfunction!(engine::release_captured, module)?)?;
    module.add_function(wrap_pyfunction!(sparse::sparse_block_map, module)?)?;
    module.add_function(wrap_pyfunction!(sparse::sparse_bsr, module)?)?;
    module.add_function(wrap_pyfunction!(sparse::sparse_page_list, module)?)?;
    module.add_function(wrap_pyfunction!(sparse::sparse_variable_blocks, module)?)?;
    module.add_function(wrap_pyfunction!(variants::check, module)?)?;
    module.add_function(wrap_pyfunction!(variants::variant, module)?)?;
    module.add_function(wrap_pyfunction!(variants::variants, module)?)?;
    module.add_function(wrap_pyfunction!(ops::merge::merge_state, module)?)?;
    module.add_function(wrap_pyfunction!(ops::merge::merge_state_in_place, module)?)?;
    module.add_function(wrap_pyfunction!(ops::merge::merge_states, module)?)?;
    module.add_function(wrap_pyfunction!(ops::merge::merge_sums, module)?)?;
    module.add_function(wrap_pyfunction!(ops::merge::lse_to_base_2, module)?)?;
    module.add_function(wrap_pyfunction!(ops::merge::lse_from_base_2, module)?)?;
    module.add_function(wrap_pyfunction!(ops::gather::gather, module)?)?;
    module.add_function(wrap_pyfunction!(ops::pages::copy_pages, module)?)?;
    module.add_function(wrap_pyfunction!(ops::pages::copy_pages_between, module)?)?;
    module.add_function(wrap_pyfunction!(ops::pages::swap_out, module)?)?;
    module.add_function(wrap_pyfunction!(ops::pages::swap_in, module)?)?;
    module.add_function(wrap_pyfunction!(ops::pages::x_packed_to_pages, module)?)?;
    module.add_function(wrap_pyfunction!(ops::pages::pages_to_x_packed, module)?)?;
    module.add_function(wrap_pyfunction!(ops::bits::packbits, module)?)?;
    module.add_function(wrap_pyfunction!(ops::bits::segment_packbits, module)?)?;
    module.add_function(wrap_pyfunction!(sampling::sample, module)?)?;
    module.add_function(wrap_pyfunction!(sampling::sample_probs, module)?)?;
    module.add_function(wrap_pyfunction!(sampling::softmax, module)?)?;
    module.add_function(wrap_pyfunction!(sampling::renorm_probs, module)?)?;
    module.add_function(wrap_pyfunction!(sampling::mask_logits, module)?)?;
    module.add_function(wrap_pyfunction!(sampling::verify_chain, module)?)?;
    module.add_function(wrap_pyfunction!(sampling::verify_tree, module)?)?;
    module.add_function(wrap_pyfunction!(sampling::prepare_sampling, module)?)?;
    module.add_function(wrap_pyfunction!(indexer::index_scores, module)?)?;
    module.add_function(wrap_pyfunction!(indexer::block_scores, module)?)?;
    module.add_function(wrap_pyfunction!(indexer::select_tokens, module)?)?;
    module.add_function(wrap_pyfunction!(indexer::select_pages, module)?)?;
    module.add_function(wrap_pyfunction!(indexer::prepare_indexer, module)?)
}
