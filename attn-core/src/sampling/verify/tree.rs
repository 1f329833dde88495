//! Speculative verification of trees: draft tokens with several children. CPU version, and the checks of both backends.

use super::coin::{DRAW, RESIDUAL, TEST, coin, reaches};
use super::{DraftSizes, Probs, draw, in_range, probs_shape};
use crate::ops::{Array, ArrayMut, OpError};
use crate::random;
use crate::sampling::fixed_point::excess_mass;
use crate::sampling::{PerRow, check};
use crate::tensor::TensorRef;

/// The most nodes of a request.
pub const MAX_NODES: usize = 2048;

/// Trees of drafts, as in SGLang and FlashInfer. Node 0 of a request is its last token, which is no draft.
///
/// In host memory an entry out of range is an error. On a device, a draft outside of the vocabulary is refused, a child
/// or sibling out of range is none, and where a `retrieve_index` is out of range, nothing is written to
/// [`TreeOut::ids`] and -1 to [`TreeOut::accept_index`].
#[derive(Clone, Copy, Debug)]
pub struct TreeDrafts<'a> {
    /// (requests, nodes): the token of each node.
    pub draft_ids: Array<'a, i32>,
    /// (requests, nodes): where a node's result goes in [`TreeOut::ids`], each elsewhere.
    pub retrieve_index: Array<'a, i32>,
    /// (requests, nodes): the first child of a node; -1: none.
    pub retrieve_next_token: Array<'a, i32>,
    /// (requests, nodes): the next child of the same parent; -1: none.
    pub retrieve_next_sibling: Array<'a, i32>,
    /// (requests, nodes, vocab) f32: the probabilities of the model behind each node. Sums of about 1.
    pub target_probs: TensorRef<'a>,
    /// A draft whose probability reaches it is accepted without a test. 1: none.
    pub threshold_single: f32,
    /// Divides the probability of drafts: below 1 more are accepted. 1: exact.
    pub threshold_acc: f32,
    /// Seeds of the requests.
    pub seeds: PerRow<'a, u64>,
}

/// What verification of trees writes.
#[derive(Debug)]
pub struct TreeOut<'a> {
    /// (requests * nodes): by `retrieve_index` the token behind each accepted node; others are unchanged.
    pub ids: ArrayMut<'a, i32>,
    /// (requests, nodes): the `retrieve_index` of the accepted nodes, node 0 first; -1 behind them.
    pub accept_index: ArrayMut<'a, i32>,
    /// (requests): how many drafts were accepted, node 0 not counted.
    pub accepted: ArrayMut<'a, i32>,
    /// (requests): the position of the token behind node 0. It is advanced by the accepted drafts and 1.
    pub positions: ArrayMut<'a, i64>,
}

/// Verifies trees of drafts, on the CPU. Behind an accepted node one random number goes through its children: the first
/// up to which their probabilities add up to it is accepted. If none is, a token is drawn from the others.
///
/// # Errors
///
/// Tensors of contradicting shapes, an index or a token out of range, device memory.
pub fn verify_tree(drafts: &TreeDrafts<'_>, out: &mut TreeOut<'_>) -> Result<(), OpError> {
    let DraftSizes { requests, drafts: nodes, vocab } = check_tree(drafts, out)?;
    let target = Probs::new("target_probs", &drafts.target_probs)?;
    let ids = drafts.draft_ids.on_host("draft_ids")?;
    let index = drafts.retrieve_index.on_host("retrieve_index")?;
    let child = drafts.retrieve_next_token.on_host("retrieve_next_token")?;
    let sibling = drafts.retrieve_next_sibling.on_host("retrieve_next_sibling")?;
    in_range("draft_ids", ids, 0, vocab)?;
    in_range("retrieve_index", index, 0, requests * nodes)?;
    in_range("retrieve_next_token", child, -1, nodes)?;
    in_range("retrieve_next_sibling", sibling, -1, nodes)?;
    let seeds = drafts.seeds.on_host("seeds")?;
    let positions = out.positions.on_host("positions")?;
    for (request, first) in positions.iter_mut().enumerate() {
        let (seed, base) = (seeds.of(request, 0), request * nodes);
        let accept_index = &mut out.accept_index.on_host("accept_index")?[base..][..nodes];
        accept_index.fill(-1);
        accept_index[0] = index[base];
        let (mut node, mut accepted) = (0, 0);
        let mut refused = Vec::new();
        loop {
            let row = target.row(request, node);
            let position = first.wrapping_add(accepted as i64) as u64;
            let coin = coin(random::bits64(seed, position, TEST));
            let (mut sum, mut next) = (0.0f32, child[base + node]);
            refused.clear();
            // a list of siblings that is a ring ends too
            while next >= 0 && refused.len() < nodes {
                let id = ids[base + next as usize];
                let prob = row[id as usize];
                sum += prob;
                if reaches(coin, sum, prob, drafts.threshold_single, drafts.threshold_acc) {
                    break;
                }
                refused.push(id);
                next = sibling[base + next as usize];
            }
            let to = index[base + node] as usize;
            if next < 0 || refused.len() >= nodes || accepted + 1 >= nodes {
                let unused = |id: usize| if refused.contains(&(id as i32)) { 0 } else { excess_mass(row[id], 0.0) };
                let purpose = if child[base + node] < 0 { DRAW } else { RESIDUAL };
                let random = random::bits64(seed, position, purpose);
                let drawn = draw(random, vocab, unused).or_else(|| draw(random, vocab, |id| excess_mass(row[id], 0.0)));
                out.ids.on_host("ids")?[to] = drawn.map_or(-1, |id| id as i32);
                break;
            }
            out.ids.on_host("ids")?[to] = ids[base + next as usize];
            accepted += 1;
            node = next as usize;
            accept_index[accepted] = index[base + node];
        }
        out.accepted.on_host("accepted")?[request] = accepted as i32;
        *first = first.wrapping_add(accepted as i64 + 1);
    }
    Ok(())
}

/// Checks the arguments of [`verify_tree`], but for entries of arrays.
///
/// # Errors
///
/// A tensor or an array that does not fit, a threshold that is not in (0, 1], no node or more than [`MAX_NODES`].
pub fn check_tree(drafts: &TreeDrafts<'_>, out: &TreeOut<'_>) -> Result<DraftSizes, OpError> {
    let [requests, nodes, vocab] = probs_shape("target_probs", &drafts.target_probs)?;
    if !(1..=MAX_NODES).contains(&nodes) {
        return Err(OpError::Parameter { name: "nodes", got: nodes as f32, want: "1 to 2048" });
    }
    drafts.draft_ids.expect_len("draft_ids", requests * nodes)?;
    drafts.retrieve_index.expect_len("retrieve_index", requests * nodes)?;
    drafts.retrieve_next_token.expect_len("retrieve_next_token", requests * nodes)?;
    drafts.retrieve_next_sibling.expect_len("retrieve_next_sibling", requests * nodes)?;
    for (name, got) in [("threshold_single", drafts.threshold_single), ("threshold_acc", drafts.threshold_acc)] {
        if !(got > 0.0 && got <= 1.0) {
            return Err(OpError::Parameter { name, got, want: "above 0 and at most 1" });
        }
    }
    check::per_row("seeds", &drafts.seeds, requests)?;
    check::len("ids", out.ids.len(), requests * nodes)?;
    check::len("accept_index", out.accept_index.len(), requests * nodes)?;
    check::len("accepted", out.accepted.len(), requests)?;
    check::len("positions", out.positions.len(), requests)?;
    Ok(DraftSizes { requests, drafts: nodes, vocab })
}
