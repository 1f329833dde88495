//! attn-rs for C and for what calls C: attention variants by name, over ragged and paged KV, planned once and run many
//! times, on CUDA devices and on the CPU.
//!
//! The header is `include/attn.h`; `cargo xtask install-c --prefix DIR` builds and installs the library, the header and
//! a `pkg-config` file. The order of calls is that of the Rust library: an engine, an attention (a variant bound to
//! heads and element types), a plan of a batch, runs on a stream.
//!
//! - Handles are opaque. Each is made by a function that writes it to its last argument, and freed once by
//!   `attn_.._free`, which takes null. What a handle was made of may be freed before it.
//! - Every function that can fail returns an [`AttnStatus`]. The text of the last failure of the calling thread is
//!   [`attn_last_error`]: what was asked, and what is possible. Nothing is written or launched by a call that fails,
//!   and no panic leaves the library.
//! - Structs begin with their size as the caller knows them. A newer library takes older structs. An older library
//!   takes a newer struct whose further fields are zero, and refuses others. Zero a struct before you fill it.
//! - Memory of tensors is the caller's: of the device where the engine is a CUDA device, else of the host. Runs on a
//!   CUDA device are launches, in the order of the stream; see [`attn_plan_run`].
//!
//! A variant of one's own comes from a Rust library of one's own, of crate type `cdylib` or `staticlib`, which has this
//! crate and `#[attention_variant]`s, and says `pub use attn_c::*;`. Its C programs link it in place of `attn_c`; a
//! static one as a whole (`--whole-archive`), since its variants register themselves.
#![allow(clippy::missing_safety_doc)] // one contract for all: pointers are null or as the header says

mod append;
mod arrays;
mod attention;
mod batch;
mod content;
mod device_batch;
mod engine;
mod input;
mod memory;
mod merge;
mod parallel;
mod plan;
mod sampling;
mod status;
mod stream;
mod tensor;
mod variants;
mod verify;

pub use append::{AttnAppend, attn_append};
pub use arrays::AttnPerRow;
pub use attention::{
    AttnAttention, AttnComputeType, AttnKernel, AttnSpec, attn_attention_free, attn_attention_new,
    attn_attention_with_parameters,
};
pub use batch::{AttnBatch, AttnBatchKind, AttnCapacity};
pub use content::{AttnContent, AttnElement, attn_set_tensor, attn_set_tensor_rows};
pub use device_batch::AttnDeviceBatch;
pub use engine::{
    AttnEngine, attn_engine_auto, attn_engine_cpu, attn_engine_cuda, attn_engine_free, attn_engine_is_cpu,
    attn_engine_load_costs, attn_engine_release_captured,
};
pub use merge::{
    AttnState, attn_lse_from_base_2, attn_lse_to_base_2, attn_merge_state, attn_merge_state_in_place,
    attn_merge_states, attn_merge_sums,
};
pub use parallel::{
    ATTN_GROUP_ID_BYTES, AttnCommunicator, AttnDecodeContextParallel, attn_communicator_abort, attn_communicator_free,
    attn_communicator_from_raw, attn_communicator_join, attn_communicator_new_id, attn_communicator_threads,
    attn_communicator_wait, attn_decode_context_parallel_free, attn_decode_context_parallel_new,
    attn_decode_context_parallel_run,
};
pub use plan::{
    AttnPlan, AttnRun, attn_plan_device_status, attn_plan_free, attn_plan_new, attn_plan_prepare_device_updates,
    attn_plan_release_captured, attn_plan_run, attn_plan_update, attn_plan_update_on_device,
};
pub use sampling::{
    AttnFilterOrder, AttnLogProbs, AttnSampleOut, AttnSampling, attn_mask_logits, attn_renorm_probs, attn_sample,
    attn_sample_probs, attn_sampling_prepare, attn_sampling_prepare_probs, attn_softmax,
};
pub use status::{AttnStatus, attn_last_error};
pub use stream::{AttnStream, attn_stream_free, attn_stream_from_raw, attn_stream_new, attn_stream_synchronize};
pub use tensor::{ATTN_MAX_RANK, AttnDtype, AttnKvLayout, AttnTensor};
pub use variants::{attn_variant_check, attn_variant_count, attn_variant_doc, attn_variant_name};
pub use verify::{
    AttnChainDrafts, AttnChainOut, AttnTreeDrafts, AttnTreeOut, attn_sampling_prepare_verify, attn_verify_chain,
    attn_verify_tree,
};

/// The version of this interface. It grows with each addition; what a version has stays in later ones.
pub const ATTN_ABI_VERSION: u32 = 6;

/// The version of the interface of the library that was loaded, to compare with `ATTN_ABI_VERSION` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn attn_abi_version() -> u32 {
    ATTN_ABI_VERSION
}
