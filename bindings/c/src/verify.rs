//! Verification of drafts in speculative decoding.

use attn::TensorRef;
use attn::sampling::{ChainDrafts, ChainOut, TreeDrafts, TreeOut, prepare_verify, verify_chain, verify_tree};

use crate::arrays::{Arrays, AttnPerRow};
use crate::engine::AttnEngine;
use crate::input::{Versioned, handle, versioned};
use crate::status::{AttnStatus, call};
use crate::stream::AttnStream;
use crate::tensor::{AttnTensor, or_one};

/// Drafts of requests, one after another. Zero it, then set `size` and what differs from zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnChainDrafts {
    /// `sizeof(AttnChainDrafts)`.
    pub size: usize,
    /// (requests, drafts, vocab) in f32: the probabilities that each draft was drawn from.
    pub draft_probs: AttnTensor,
    /// (requests, drafts + 1, vocab) in f32: the probabilities of the model, after its filters.
    pub target_probs: AttnTensor,
    /// (requests, drafts), in memory of the device: the drafts. A request with fewer has -1 behind them.
    pub draft_ids: *const i32,
    /// Seeds of the requests.
    pub seeds: AttnPerRow<u64>,
}

/// What the verification of chains writes, in memory of the device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnChainOut {
    /// `sizeof(AttnChainOut)`.
    pub size: usize,
    /// (requests, drafts + 1): the emitted drafts and one more token; -1 behind it.
    pub ids: *mut i32,
    /// (requests): how many drafts pass their tests, each for itself.
    pub accepted: *mut i32,
    /// (requests): how many drafts were emitted, those before the first that fails.
    pub emitted: *mut i32,
    /// (requests): the position of the first draft. It is advanced by the emitted drafts and 1.
    pub positions: *mut i64,
}

/// Trees of drafts. Node 0 of a request is its last token, which is no draft. Arrays are in memory of the device and
/// have (requests, nodes) entries. Zero it, then set `size` and what differs from zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnTreeDrafts {
    /// `sizeof(AttnTreeDrafts)`.
    pub size: usize,
    /// (requests, nodes, vocab) in f32: the probabilities of the model behind each node. A tree has 1 to 2048 nodes.
    pub target_probs: AttnTensor,
    /// The token of each node.
    pub draft_ids: *const i32,
    /// Where a node's result goes in `AttnTreeOut.ids`, each elsewhere.
    pub retrieve_index: *const i32,
    /// The first child of a node; -1: none.
    pub retrieve_next_token: *const i32,
    /// The next child of the same parent; -1: none.
    pub retrieve_next_sibling: *const i32,
    /// Seeds of the requests.
    pub seeds: AttnPerRow<u64>,
    /// A draft whose probability reaches it is accepted without a test; 0 for 1, which is none.
    pub threshold_single: f32,
    /// Divides the probability of drafts: below 1 more are accepted; 0 for 1, which is exact.
    pub threshold_acc: f32,
}

/// What the verification of trees writes, in memory of the device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnTreeOut {
    /// `sizeof(AttnTreeOut)`.
    pub size: usize,
    /// (requests * nodes): by `retrieve_index` the token behind each accepted node; others are unchanged.
    pub ids: *mut i32,
    /// (requests, nodes): the `retrieve_index` of the accepted nodes, node 0 first; -1 behind them.
    pub accept_index: *mut i32,
    /// (requests): how many drafts were accepted.
    pub accepted: *mut i32,
    /// (requests): the position of the token behind node 0. It is advanced by the accepted drafts and 1.
    pub positions: *mut i64,
}

macro_rules! versioned {
    ($($of:ident),*) => {$(
        // SAFETY: its first field is its size, and all fields are numbers and pointers.
        unsafe impl Versioned for $of {
            const NAME: &'static str = stringify!($of);
            const FIRST_SIZE: usize = size_of::<$of>();
        }
    )*};
}
versioned!(AttnChainDrafts, AttnChainOut, AttnTreeDrafts, AttnTreeOut);

/// Requests, and drafts of each. Another rank is refused by what verifies.
fn sizes(probs: &TensorRef<'_>) -> [usize; 2] {
    [0, 1].map(|dim| probs.shape().get(dim).copied().unwrap_or(0))
}

/// Verifies chains of drafts: draft i is emitted with probability `min(1, target / draft)`; the first that is not is
/// replaced by a draw from `max(target - draft, 0)`; behind all drafts follows a draw from the last target. Outputs
/// share no memory with each other or with an input. On a CUDA device it launches and returns, as a run does;
/// `attn_sampling_prepare_verify` comes before a capture.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_verify_chain(
    stream: *const AttnStream,
    drafts: *const AttnChainDrafts,
    out: *const AttnChainOut,
) -> AttnStatus {
    // SAFETY: the caller's pointers, tensors and arrays.
    call(|| unsafe {
        let AttnStream { stream, memory } = handle(stream, "stream")?;
        let (drafts, out) = (versioned(drafts)?, versioned(out)?);
        let draft_probs = drafts.draft_probs.read(memory, "draft_probs")?;
        let target_probs = drafts.target_probs.read(memory, "target_probs")?;
        let [requests, count] = sizes(&draft_probs);
        let (of_drafts, of_ids) = (requests.saturating_mul(count), requests.saturating_mul(count.saturating_add(1)));
        let mut arrays = Arrays::new(memory);
        arrays.add("draft_probs", draft_probs.reach(), false)?;
        arrays.add("target_probs", target_probs.reach(), false)?;
        let drafts = ChainDrafts {
            draft_probs,
            draft_ids: arrays.read(drafts.draft_ids, of_drafts, "AttnChainDrafts.draft_ids")?,
            target_probs,
            seeds: arrays.per_row(drafts.seeds, requests, 0, "AttnChainDrafts.seeds")?,
        };
        let mut out = ChainOut {
            ids: arrays.write(out.ids, of_ids, "AttnChainOut.ids")?,
            accepted: arrays.write(out.accepted, requests, "AttnChainOut.accepted")?,
            emitted: arrays.write(out.emitted, requests, "AttnChainOut.emitted")?,
            positions: arrays.write(out.positions, requests, "AttnChainOut.positions")?,
        };
        Ok(verify_chain(stream, &drafts, &mut out)?)
    })
}

/// Verifies trees of drafts. Behind an accepted node one random number goes through its children: the first up to which
/// their probabilities add up to it is accepted. If none is, a token is drawn from the others. Otherwise as
/// `attn_verify_chain`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_verify_tree(
    stream: *const AttnStream,
    drafts: *const AttnTreeDrafts,
    out: *const AttnTreeOut,
) -> AttnStatus {
    // SAFETY: the caller's pointers, tensors and arrays.
    call(|| unsafe {
        let AttnStream { stream, memory } = handle(stream, "stream")?;
        let (of, out) = (versioned(drafts)?, versioned(out)?);
        let target_probs = of.target_probs.read(memory, "target_probs")?;
        let [requests, nodes] = sizes(&target_probs);
        let all = requests.saturating_mul(nodes);
        let mut arrays = Arrays::new(memory);
        arrays.add("target_probs", target_probs.reach(), false)?;
        let mut ints = |from, name| arrays.read(from, all, name);
        let drafts = TreeDrafts {
            draft_ids: ints(of.draft_ids, "AttnTreeDrafts.draft_ids")?,
            retrieve_index: ints(of.retrieve_index, "AttnTreeDrafts.retrieve_index")?,
            retrieve_next_token: ints(of.retrieve_next_token, "AttnTreeDrafts.retrieve_next_token")?,
            retrieve_next_sibling: ints(of.retrieve_next_sibling, "AttnTreeDrafts.retrieve_next_sibling")?,
            target_probs,
            threshold_single: or_one(of.threshold_single),
            threshold_acc: or_one(of.threshold_acc),
            seeds: arrays.per_row(of.seeds, requests, 0, "AttnTreeDrafts.seeds")?,
        };
        let mut out = TreeOut {
            ids: arrays.write(out.ids, all, "AttnTreeOut.ids")?,
            accept_index: arrays.write(out.accept_index, all, "AttnTreeOut.accept_index")?,
            accepted: arrays.write(out.accepted, requests, "AttnTreeOut.accepted")?,
            positions: arrays.write(out.positions, requests, "AttnTreeOut.positions")?,
        };
        Ok(verify_tree(stream, &drafts, &mut out)?)
    })
}

/// Compiles and loads the kernels of `attn_verify_chain` and `attn_verify_tree`, so that the first call can be
/// captured.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_sampling_prepare_verify(engine: *const AttnEngine) -> AttnStatus {
    // SAFETY: the caller's handle.
    call(|| Ok(prepare_verify(&unsafe { handle(engine, "engine") }?.0)?))
}
