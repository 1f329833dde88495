//! Cases of verified chains: random drafts, run on the CPU, on a GPU and emulated.

use attn::Engine;
use attn::sampling::{ChainDrafts, ChainOut, PerRow, verify_chain};

use attn_kernels::launch::VerifyChainParams;

use super::{How, ProbRows, UNWRITTEN, Verified, numbers, requests, twice};
use crate::simt::HostVerifier;

/// Chains of drafts.
#[derive(Clone, Debug)]
pub struct ChainCase {
    /// For messages.
    pub name: String,
    draft: ProbRows,
    target: ProbRows,
    ids: Vec<i32>,
}

impl ChainCase {
    /// Drafts from random distributions.
    fn new(name: &str, [requests, drafts, vocab]: [usize; 3], gap: usize) -> ChainCase {
        let mut draft = ProbRows::random([requests, drafts, vocab], gap, 3, 2.0);
        let mut target = ProbRows::random([requests, drafts + 1, vocab], gap, 4, 2.0);
        let mut ids = Vec::new();
        for (request, i) in (0..requests).flat_map(|request| (0..drafts).map(move |i| (request, i))) {
            // half of the target is the draft's, so that some are accepted
            let (to, from) = (target.row(request, i), draft.row(request, i));
            to.iter_mut().zip(from).for_each(|(to, from)| *to = 0.5 * *to + 0.5 * *from);
            ids.push(draft.draw(request, i, 8));
        }
        ChainCase { name: format!("{name}, {requests} chains of {drafts}, {vocab} tokens"), draft, target, ids }
    }

    /// Requests, drafts of each, and tokens of the vocabulary.
    pub fn random(sizes: [usize; 3]) -> ChainCase {
        ChainCase::new("random", sizes, 0)
    }

    /// Calls `f` with the rows of each draft, and its token.
    fn each(mut self, f: impl Fn(&mut [f32], &mut [f32], usize)) -> Self {
        let [requests, drafts, _] = self.draft.shape;
        for (request, i) in (0..requests).flat_map(|request| (0..drafts).map(move |i| (request, i))) {
            let id = self.ids[request * drafts + i] as usize;
            f(self.draft.row(request, i), self.target.row(request, i), id);
        }
        self
    }

    fn before(&self) -> (Verified, Vec<u64>) {
        let [count, drafts, _] = self.draft.shape;
        let (seeds, positions) = requests(count);
        let ids = vec![UNWRITTEN; count * (drafts + 1)];
        let none = vec![UNWRITTEN; count];
        (Verified { ids, accepted: none.clone(), emitted: none, accept_index: Vec::new(), positions }, seeds)
    }

    /// The drafts as a device has them: what is none is any id outside of the vocabulary.
    fn wild_ids(&self) -> Vec<i32> {
        let none = [i32::MIN, self.draft.shape[2] as i32, -2, i32::MAX, -1];
        self.ids.iter().enumerate().map(|(i, &id)| if id < 0 { none[i % 5] } else { id }).collect()
    }

    /// Verifies twice on an engine.
    ///
    /// # Panics
    /// It fails.
    pub fn run(&self, engine: &Engine, how: How) -> Verified {
        let (before, seeds) = self.before();
        let (draft, target) = (self.draft.upload(engine), self.target.upload(engine));
        let draft_ids = numbers(engine, &if engine.is_cpu() { self.ids.clone() } else { self.wild_ids() });
        let seeds = numbers(engine, &seeds);
        let (mut ids, mut positions) = (numbers(engine, &before.ids), numbers(engine, &before.positions));
        let (mut accepted, mut emitted) = (numbers(engine, &before.accepted), numbers(engine, &before.emitted));
        twice(engine, how, |stream| {
            let drafts = ChainDrafts {
                draft_probs: self.draft.tensor(&draft)?,
                draft_ids: draft_ids.array(),
                target_probs: self.target.tensor(&target)?,
                seeds: PerRow::Rows(seeds.array()),
            };
            let mut out = ChainOut {
                ids: ids.array_mut(),
                accepted: accepted.array_mut(),
                emitted: emitted.array_mut(),
                positions: positions.array_mut(),
            };
            verify_chain(stream, &drafts, &mut out)
        });
        Verified {
            ids: ids.to_vec().expect("read"),
            accepted: accepted.to_vec().expect("read"),
            emitted: emitted.to_vec().expect("read"),
            accept_index: Vec::new(),
            positions: positions.to_vec().expect("read"),
        }
    }

    /// Verifies twice in the emulated kernel.
    pub fn run_emulated(&self, verifier: &HostVerifier, seed: u32) -> Verified {
        let (mut out, seeds) = self.before();
        let [count, drafts, vocab] = self.draft.shape;
        let ids = self.wild_ids();
        let [draft_request, draft_row] = self.draft.strides();
        let [target_request, target_row] = self.target.strides();
        let params = VerifyChainParams {
            draft_probs: self.draft.address(),
            draft_request,
            draft_row,
            target_probs: self.target.address(),
            target_request,
            target_row,
            draft_ids: ids.as_ptr() as u64,
            seeds: seeds.as_ptr() as u64,
            ids: out.ids.as_mut_ptr() as u64,
            accepted: out.accepted.as_mut_ptr() as u64,
            emitted: out.emitted.as_mut_ptr() as u64,
            positions: out.positions.as_mut_ptr() as u64,
            drafts: drafts as i32,
            vocab: vocab as i32,
            slice: vocab.next_multiple_of(128) as i32,
            wide: i32::from(self.target.aligned() && self.draft.aligned()),
            ..VerifyChainParams::default()
        };
        for round in 0..2 {
            verifier.chain(&params, count, seed + round);
        }
        out
    }
}

/// Chains of every kind, also of what is no distribution.
pub fn chains(count: usize, vocab: usize) -> Vec<ChainCase> {
    let new = |name, drafts, gap| ChainCase::new(name, [count, drafts, vocab], gap);
    let mut cases = vec![
        new("random", 4, 0),
        new("one draft", 1, 0),
        new("no draft", 0, 0),
        new("odd strides", 3, 3),
        new("even strides", 3, (8 - vocab % 4) % 8),
        new("all accepted", 5, 0).each(|draft, target, _| target.copy_from_slice(draft)),
        new("none accepted", 5, 0).each(|_, target, id| target[id] = 0.0),
        new("drafts of no probability", 4, 0).each(|draft, _, id| draft[id] = 0.0),
        // the last draft of a chain fails at least half of the times, and its residual has no mass
        new("no residual", 4, 0).each(|draft, target, _| target.iter_mut().zip(draft).for_each(|(t, d)| *t = *d * 0.4)),
        new("no mass", 4, 0).each(|_, target, _| target.fill(0.0)),
    ];
    let mut spoilt = new("what is no probability", 4, 1);
    spoilt.draft.spoil();
    spoilt.target.spoil();
    cases.push(spoilt);
    let mut fewer = new("fewer drafts", 4, 0).each(|draft, target, _| target.copy_from_slice(draft));
    fewer.ids.iter_mut().enumerate().for_each(|(i, id)| {
        if i % 4 >= i / 4 % 5 || i % 3 == 2 {
            *id = -1;
        }
    });
    cases.push(fewer);
    if vocab < 200 {
        // more drafts than threads
        let long = new("long", 1100, 0).each(|draft, target, _| target.copy_from_slice(draft));
        cases.push(long);
    }
    cases
}
