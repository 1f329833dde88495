//! Verification of speculated tokens, on the CPU: a chain of drafts, and a tree.
//!
//! Every test of a draft and every draw has a random number of its own, by the seed, the position of the token, and what
//! it is for. So a token after the drafts is the one that sampling without drafts draws there from the same
//! probabilities.

use super::{
    PerRow, check,
    fixed_point::{accepts, excess_mass, mulhi},
};
use crate::{
    dtype::Dtype,
    ops::{Array, ArrayMut, OpError, check as op_check, elements},
    random,
    tensor::TensorRef,
};

/// What a random number of a position is for.
const DRAW: u32 = 0;
const TEST: u32 = 1;
const RESIDUAL: u32 = 2;

/// Drafts of requests, one after another: Leviathan et al., "Fast inference from transformers via speculative decoding"
/// (ICML 2023).
#[derive(Clone, Copy, Debug)]
pub struct ChainDrafts<'a> {
    /// (requests, drafts, vocab) f32: what each draft was drawn from. Sums of about 1.
    pub draft_probs: TensorRef<'a>,
    /// (requests, drafts): the drafts.
    pub draft_ids: Array<'a, i32>,
    /// (requests, drafts + 1, vocab) f32: the probabilities of the model, after its filters. Sums of about 1.
    pub target_probs: TensorRef<'a>,
    /// Seeds of the requests.
    pub seeds: PerRow<'a, u64>,
}

/// What verification of chains writes.
#[derive(Debug)]
pub struct ChainOut<'a> {
    /// (requests, drafts + 1): the emitted drafts and one more token; -1 behind it.
    pub ids: ArrayMut<'a, i32>,
    /// (requests): how many drafts pass their tests, each for itself.
    pub accepted: ArrayMut<'a, i32>,
    /// (requests): how many drafts were emitted, those before the first that fails.
    pub emitted: ArrayMut<'a, i32>,
    /// (requests): the position of the first draft. It is advanced by the emitted drafts and 1.
    pub positions: ArrayMut<'a, i64>,
}

/// Verifies chains of drafts, on the CPU: draft i is emitted with probability `min(1, target / draft)`; the first that is
/// not is replaced by a draw from `max(target - draft, 0)`; behind all drafts follows a draw from the last target.
///
/// # Errors
///
/// Tensors of contradicting shapes, a draft outside of the vocabulary, device memory.
pub fn verify_chain(drafts: &ChainDrafts<'_>, out: &mut ChainOut<'_>) -> Result<(), OpError> {
    let [requests, count, vocab] = check_chain(drafts, out)?;
    let (draft, target) =
        (Probs::new("draft_probs", &drafts.draft_probs)?, Probs::new("target_probs", &drafts.target_probs)?);
    let ids = drafts.draft_ids.on_host("draft_ids")?;
    for (index, &id) in ids.iter().enumerate() {
        if !usize::try_from(id).is_ok_and(|id| id < vocab) {
            let (value, most) = (i64::from(id), vocab as i64 - 1);
            return Err(OpError::Entry { array: "draft_ids", index, value, least: 0, most });
        }
    }
    let seeds = drafts.seeds.on_host("seeds")?;
    let positions = out.positions.on_host("positions")?;
    for request in 0..requests {
        let (seed, first) = (seeds.of(request, 0), positions[request]);
        let at = |i: usize| first.wrapping_add(i as i64) as u64;
        let passes: Vec<bool> = (0..count)
            .map(|i| {
                let id = ids[request * count + i] as usize;
                let test = random::bits64(seed, at(i), TEST);
                accepts(test, draft.row(request, i)[id], target.row(request, i)[id])
            })
            .collect();
        let emitted = passes.iter().take_while(|&&passes| passes).count();
        let last = if emitted < count {
            let random = random::bits64(seed, at(emitted), RESIDUAL);
            let (target, draft) = (target.row(request, emitted), draft.row(request, emitted));
            draw(random, vocab, |id| excess_mass(target[id], draft[id]))
                .or_else(|| draw(random, vocab, |id| excess_mass(target[id], 0.0)))
        } else {
            let target = target.row(request, count);
            draw(random::bits64(seed, at(count), DRAW), vocab, |id| excess_mass(target[id], 0.0))
        };
        let to = &mut out.ids.on_host("ids")?[request * (count + 1)..][..count + 1];
        to.fill(-1);
        to[..emitted].copy_from_slice(&ids[request * count..][..emitted]);
        to[emitted] = last.map_or(-1, |id| id as i32);
        out.accepted.on_host("accepted")?[request] = passes.iter().filter(|&&passes| passes).count() as i32;
        out.emitted.on_host("emitted")?[request] = emitted as i32;
        positions[request] = first.wrapping_add(emitted as i64 + 1);
    }
    Ok(())
}

fn check_chain(drafts: &ChainDrafts<'_>, out: &ChainOut<'_>) -> Result<[usize; 3], OpError> {
    let (draft, target) = (&drafts.draft_probs, &drafts.target_probs);
    let [requests, count, vocab] = probs_shape("draft_probs", draft)?;
    probs_shape("target_probs", target)?;
    for (dim, what, want) in [(0, "requests", requests), (1, "rows", count + 1), (2, "tokens", vocab)] {
        op_check::extent("target_probs", target, dim, what, want)?;
    }
    drafts.draft_ids.expect_len("draft_ids", requests * count)?;
    check::per_row("seeds", &drafts.seeds, requests)?;
    check::len("ids", out.ids.len(), requests * (count + 1))?;
    check::len("accepted", out.accepted.len(), requests)?;
    check::len("emitted", out.emitted.len(), requests)?;
    check::len("positions", out.positions.len(), requests)?;
    Ok([requests, count, vocab])
}

fn probs_shape(name: &'static str, probs: &TensorRef<'_>) -> Result<[usize; 3], OpError> {
    op_check::rank(name, probs, 3, "3: (requests, rows, vocab)")?;
    op_check::dtype(name, probs.dtype(), &[Dtype::F32])?;
    op_check::innermost(name, probs)?;
    Ok([probs.shape()[0], probs.shape()[1], probs.shape()[2]])
}

/// The first token up to which masses exceed `random` of their sum; `None` without mass.
fn draw(random: u64, vocab: usize, mass: impl Fn(usize) -> u64) -> Option<usize> {
    let sum: u64 = (0..vocab).map(&mass).sum();
    let number = mulhi(random, sum);
    let mut through = 0;
    (0..vocab).find(|&id| {
        through += mass(id);
        through > number
    })
}

/// Probabilities in host memory.
struct Probs<'a> {
    values: &'a [f32],
    strides: [usize; 2],
    vocab: usize,
}

impl<'a> Probs<'a> {
    fn new(name: &'static str, tensor: &TensorRef<'a>) -> Result<Self, OpError> {
        let values = tensor.as_host::<f32>().ok_or_else(|| elements::on_device(name))?;
        let strides = [tensor.strides()[0] as usize, tensor.strides()[1] as usize];
        Ok(Probs { values, strides, vocab: tensor.shape()[2] })
    }

    fn row(&self, request: usize, row: usize) -> &'a [f32] {
        &self.values[request * self.strides[0] + row * self.strides[1]..][..self.vocab]
    }
}

/// Trees of drafts, as in SGLang and FlashInfer. Node 0 of a request is its last token, which is no draft.
#[derive(Clone, Copy, Debug)]
pub struct TreeDrafts<'a> {
    /// (requests, nodes): the token of each node.
    pub draft_ids: Array<'a, i32>,
    /// (requests, nodes): where a node's result goes in [`TreeOut::ids`].
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
    let [requests, nodes, vocab] = check_tree(drafts, out)?;
    let target = Probs::new("target_probs", &drafts.target_probs)?;
    let ids = drafts.draft_ids.on_host("draft_ids")?;
    let index = drafts.retrieve_index.on_host("retrieve_index")?;
    let child = drafts.retrieve_next_token.on_host("retrieve_next_token")?;
    let sibling = drafts.retrieve_next_sibling.on_host("retrieve_next_sibling")?;
    let bounds = [
        ("draft_ids", ids, 0, vocab),
        ("retrieve_index", index, 0, requests * nodes),
        ("retrieve_next_token", child, -1, nodes),
        ("retrieve_next_sibling", sibling, -1, nodes),
    ];
    for (array, values, least, end) in bounds {
        let wrong = values.iter().position(|&x| i64::from(x) < least || i64::from(x) >= end as i64);
        if let Some(index) = wrong {
            return Err(OpError::Entry { array, index, value: values[index].into(), least, most: end as i64 - 1 });
        }
    }
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
            let coin = (random::bits64(seed, position, TEST) >> 40) as f32 * (1.0 / 16_777_216.0);
            let (mut sum, mut next) = (0.0f32, child[base + node]);
            refused.clear();
            // a list of siblings that is a ring ends too
            while next >= 0 && refused.len() < nodes {
                let id = ids[base + next as usize];
                let prob = row[id as usize];
                sum += prob;
                if coin < sum / drafts.threshold_acc || prob >= drafts.threshold_single {
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

fn check_tree(drafts: &TreeDrafts<'_>, out: &TreeOut<'_>) -> Result<[usize; 3], OpError> {
    let shape = probs_shape("target_probs", &drafts.target_probs)?;
    let [requests, nodes, _] = shape;
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
    Ok(shape)
}

#[cfg(test)]
mod tests;
