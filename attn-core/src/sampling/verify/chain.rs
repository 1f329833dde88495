//! Speculative verification of chains: each draft token follows the one before it. CPU version, and the checks of both
//! backends.

use super::coin::{DRAW, RESIDUAL, TEST};
use super::{DraftSizes, Probs, draw, in_range, probs_shape};
use crate::ops::{Array, ArrayMut, OpError, check as op_check};
use crate::random;
use crate::sampling::fixed_point::{accepts, excess_mass};
use crate::sampling::{PerRow, check};
use crate::tensor::TensorRef;

/// Drafts of requests, one after another: Leviathan et al., "Fast inference from transformers via speculative decoding"
/// (ICML 2023).
#[derive(Clone, Copy, Debug)]
pub struct ChainDrafts<'a> {
    /// (requests, drafts, vocab) f32: what each draft was drawn from. Sums of about 1.
    pub draft_probs: TensorRef<'a>,
    /// (requests, drafts): the drafts. A request with fewer has -1 behind them: no draft, in whose place a token is
    /// drawn as behind the last one. On a device every id outside of the vocabulary is no draft.
    pub draft_ids: Array<'a, i32>,
    /// (requests, drafts + 1, vocab) f32: the probabilities of the model, after its filters. Sums of about 1.
    pub target_probs: TensorRef<'a>,
    /// Seeds of the requests.
    pub seeds: PerRow<'a, u64>,
}

/// What verification of chains writes.
#[derive(Debug)]
pub struct ChainOut<'a> {
    /// (requests, drafts + 1): the emitted drafts and one more token; -1 behind it. The token is -1 too if no token has
    /// a probability.
    pub ids: ArrayMut<'a, i32>,
    /// (requests): how many drafts pass their tests, each for itself.
    pub accepted: ArrayMut<'a, i32>,
    /// (requests): how many drafts were emitted, those before the first that fails.
    pub emitted: ArrayMut<'a, i32>,
    /// (requests): the position of the first draft. It is advanced by the emitted drafts and 1.
    pub positions: ArrayMut<'a, i64>,
}

/// Verifies chains of drafts, on the CPU: draft i is emitted with probability `min(1, target / draft)`; the first that
/// is not is replaced by a draw from `max(target - draft, 0)`; behind all drafts follows a draw from the last target.
///
/// # Errors
///
/// Tensors of contradicting shapes, a draft outside of the vocabulary, device memory.
pub fn verify_chain(drafts: &ChainDrafts<'_>, out: &mut ChainOut<'_>) -> Result<(), OpError> {
    let DraftSizes { requests, drafts: count, vocab } = check_chain(drafts, out)?;
    let (draft, target) =
        (Probs::new("draft_probs", &drafts.draft_probs)?, Probs::new("target_probs", &drafts.target_probs)?);
    let ids = drafts.draft_ids.on_host("draft_ids")?;
    in_range("draft_ids", ids, -1, vocab)?;
    let seeds = drafts.seeds.on_host("seeds")?;
    let positions = out.positions.on_host("positions")?;
    for (request, position) in positions.iter_mut().enumerate().take(requests) {
        let (seed, first) = (seeds.of(request, 0), *position);
        let random = |i: usize, purpose| random::bits64(seed, first.wrapping_add(i as i64) as u64, purpose);
        let ids = &ids[request * count..][..count];
        let passes = |(i, &id): (usize, &i32)| {
            let id = usize::try_from(id).ok()?;
            accepts(random(i, TEST), draft.row(request, i)[id], target.row(request, i)[id]).then_some(())
        };
        let passes: Vec<bool> = ids.iter().enumerate().map(|draft| passes(draft).is_some()).collect();
        let emitted = passes.iter().take_while(|&&passes| passes).count();
        let target = target.row(request, emitted);
        let of_target = |random| draw(random, vocab, |id| excess_mass(target[id], 0.0));
        let last = if ids.get(emitted).is_some_and(|&id| id >= 0) {
            let (draft, random) = (draft.row(request, emitted), random(emitted, RESIDUAL));
            draw(random, vocab, |id| excess_mass(target[id], draft[id])).or_else(|| of_target(random))
        } else {
            of_target(random(emitted, DRAW))
        };
        let to = &mut out.ids.on_host("ids")?[request * (count + 1)..][..count + 1];
        to.fill(-1);
        to[..emitted].copy_from_slice(&ids[..emitted]);
        to[emitted] = last.map_or(-1, |id| id as i32);
        out.accepted.on_host("accepted")?[request] = passes.iter().filter(|&&passes| passes).count() as i32;
        out.emitted.on_host("emitted")?[request] = emitted as i32;
        *position = first.wrapping_add(emitted as i64 + 1);
    }
    Ok(())
}

/// Checks the arguments of [`verify_chain`], but for entries of arrays.
///
/// # Errors
///
/// A tensor or an array that does not fit.
pub fn check_chain(drafts: &ChainDrafts<'_>, out: &ChainOut<'_>) -> Result<DraftSizes, OpError> {
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
    Ok(DraftSizes { requests, drafts: count, vocab })
}
