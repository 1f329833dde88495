//! Cases of verified trees: random drafts, run on the CPU, on a GPU and emulated.

use attn::Engine;
use attn::sampling::{PerRow, TreeDrafts, TreeOut, verify_tree};

use attn_core::random;
use attn_kernels::launch::VerifyTreeParams;

use super::{How, ProbRows, Verified, numbers, requests, twice};
use crate::simt::HostVerifier;

/// Trees of drafts.
#[derive(Clone, Debug)]
pub struct TreeCase {
    /// For messages.
    pub name: String,
    target: ProbRows,
    tokens: Vec<i32>,
    slots: Vec<i32>,
    children: Vec<i32>,
    siblings: Vec<i32>,
    threshold_single: f32,
    threshold_acc: f32,
    /// Slots that a device has as numbers out of range.
    lost: Vec<i32>,
    /// Whether a device has numbers out of range for tokens without probability, and for links to nowhere.
    wild: bool,
}

impl TreeCase {
    /// Trees in which the parent of a node is one of the `reach` nodes before it.
    fn new(name: &str, [requests, nodes, vocab]: [usize; 3], gap: usize, reach: usize) -> TreeCase {
        let mut target = ProbRows::random([requests, nodes, vocab], gap, 6, 2.0);
        let all = requests * nodes;
        let (mut tokens, mut children, mut siblings) = (vec![0; all], vec![-1; all], vec![-1; all]);
        for (request, node) in (0..requests).flat_map(|request| (1..nodes).map(move |node| (request, node))) {
            let at = request * nodes;
            let parent = node - 1 - random::bits(1, 2, request as u32, node as u32) as usize % reach.min(node);
            tokens[at + node] = target.draw(request, parent, node as u32);
            // the first child comes last
            siblings[at + node] = children[at + parent];
            children[at + parent] = node as i32;
        }
        // every node has another slot
        let slots = (0..all as i32).rev().collect();
        TreeCase {
            name: format!("{name}, {requests} trees of {nodes}, {vocab} tokens"),
            target,
            tokens,
            slots,
            children,
            siblings,
            threshold_single: 1.0,
            threshold_acc: 1.0,
            lost: Vec::new(),
            wild: false,
        }
    }

    /// Requests, nodes of each, and tokens of the vocabulary.
    pub fn random(sizes: [usize; 3]) -> TreeCase {
        TreeCase::new("random", sizes, 0, 3)
    }

    fn before(&self) -> (Verified, Vec<u64>) {
        let [count, nodes, _] = self.target.shape;
        let (seeds, positions) = requests(count);
        let none = vec![-7; count * nodes];
        let accepted = vec![-7; count];
        (Verified { ids: none.clone(), accepted, emitted: Vec::new(), accept_index: none, positions }, seeds)
    }

    /// Tokens, slots, children and siblings as a device has them.
    fn on_device(&self) -> [Vec<i32>; 4] {
        let [count, nodes, vocab] = self.target.shape;
        let wild = |values: &[i32], none: i32, end: usize| {
            let instead = [i32::MIN, end as i32, -2, i32::MAX, -1];
            let of = |(i, &x): (usize, &i32)| if self.wild && x == none { instead[i % 5] } else { x };
            values.iter().enumerate().map(of).collect::<Vec<i32>>()
        };
        let lose = |(i, &slot): (usize, &i32)| {
            if self.lost.contains(&slot) { [-1, (count * nodes) as i32, i32::MIN, i32::MAX][i % 4] } else { slot }
        };
        [
            wild(&self.tokens, vocab as i32 - 1, vocab),
            self.slots.iter().enumerate().map(lose).collect(),
            wild(&self.children, -1, nodes),
            wild(&self.siblings, -1, nodes),
        ]
    }

    /// Verifies twice on an engine.
    ///
    /// # Panics
    /// It fails.
    pub fn run(&self, engine: &Engine, how: How) -> Verified {
        let (before, seeds) = self.before();
        let target = self.target.upload(engine);
        let arrays = if engine.is_cpu() {
            [&self.tokens, &self.slots, &self.children, &self.siblings].map(Clone::clone)
        } else {
            self.on_device()
        };
        let [tokens, slots, children, siblings] = arrays.map(|array| numbers(engine, &array));
        let seeds = numbers(engine, &seeds);
        let (mut ids, mut positions) = (numbers(engine, &before.ids), numbers(engine, &before.positions));
        let (mut accepted, mut accept_index) =
            (numbers(engine, &before.accepted), numbers(engine, &before.accept_index));
        twice(engine, how, |stream| {
            let drafts = TreeDrafts {
                draft_ids: tokens.array(),
                retrieve_index: slots.array(),
                retrieve_next_token: children.array(),
                retrieve_next_sibling: siblings.array(),
                target_probs: self.target.tensor(&target)?,
                threshold_single: self.threshold_single,
                threshold_acc: self.threshold_acc,
                seeds: PerRow::Rows(seeds.array()),
            };
            let mut out = TreeOut {
                ids: ids.array_mut(),
                accept_index: accept_index.array_mut(),
                accepted: accepted.array_mut(),
                positions: positions.array_mut(),
            };
            verify_tree(stream, &drafts, &mut out)
        });
        let mut verified = Verified {
            ids: ids.to_vec().expect("read"),
            accepted: accepted.to_vec().expect("read"),
            emitted: Vec::new(),
            accept_index: accept_index.to_vec().expect("read"),
            positions: positions.to_vec().expect("read"),
        };
        if engine.is_cpu() {
            for &slot in &self.lost {
                verified.ids[slot as usize] = -7;
                verified.accept_index.iter_mut().filter(|index| **index == slot).for_each(|index| *index = -1);
            }
        }
        verified
    }

    /// Verifies twice in the emulated kernel.
    pub fn run_emulated(&self, verifier: &HostVerifier, seed: u32) -> Verified {
        let (mut out, seeds) = self.before();
        let [count, nodes, vocab] = self.target.shape;
        let [tokens, slots, children, siblings] = self.on_device();
        let [target_request, target_row] = self.target.strides();
        let params = VerifyTreeParams {
            target_probs: self.target.address(),
            target_request,
            target_row,
            draft_ids: tokens.as_ptr() as u64,
            retrieve_index: slots.as_ptr() as u64,
            retrieve_next_token: children.as_ptr() as u64,
            retrieve_next_sibling: siblings.as_ptr() as u64,
            seeds: seeds.as_ptr() as u64,
            ids: out.ids.as_mut_ptr() as u64,
            accept_index: out.accept_index.as_mut_ptr() as u64,
            accepted: out.accepted.as_mut_ptr() as u64,
            positions: out.positions.as_mut_ptr() as u64,
            threshold_single: self.threshold_single,
            threshold_acc: self.threshold_acc,
            requests: count as i32,
            nodes: nodes as i32,
            vocab: vocab as i32,
            slice: vocab.next_multiple_of(128) as i32,
            wide: i32::from(self.target.aligned()),
            ..VerifyTreeParams::default()
        };
        for round in 0..2 {
            verifier.tree(&params, count, nodes, seed + round);
        }
        out
    }
}

/// Trees of every kind, also of what is none.
pub fn trees(count: usize, vocab: usize) -> Vec<TreeCase> {
    let new = |name, nodes, gap, reach| TreeCase::new(name, [count, nodes, vocab], gap, reach);
    let [mut no_mass, mut spoilt] = [new("no mass", 6, 0, 3), new("what is no probability", 9, 1, 4)];
    no_mass.target.values.fill(0.0);
    spoilt.target.spoil();
    let mut cases = vec![
        new("random", 9, 0, 4),
        new("a chain", 6, 0, 1),
        new("no draft", 1, 0, 1),
        new("odd strides", 7, 3, 3),
        new("even strides", 7, (8 - vocab % 4) % 8, 3),
        TreeCase { threshold_single: 0.05, ..new("accepted by themselves", 9, 0, 4) },
        TreeCase { threshold_acc: 0.4, ..new("accepted more often", 9, 0, 4) },
        no_mass,
        spoilt,
    ];
    // more siblings than a warp has lanes, and some tokens twice; all of little probability
    let mut wide = new("many siblings", 71, 0, 71);
    wide.children.fill(-1);
    for request in 0..count {
        wide.children[request * 71] = 1;
        (1..71).for_each(|node| wide.siblings[request * 71 + node] = if node < 70 { node as i32 + 1 } else { -1 });
        let row = wide.target.row(request, 0);
        row.iter_mut().for_each(|prob| *prob = 1.0 / vocab as f32);
    }
    cases.push(wide.clone());
    // all that is not refused has no probability
    let mut refused = TreeCase { name: "nothing else, ".to_owned() + &wide.name, ..wide.clone() };
    for request in 0..count {
        let drafts = refused.tokens[request * 71..][..71].to_vec();
        let row = refused.target.row(request, 0);
        row.fill(0.0);
        drafts.iter().for_each(|&token| row[token as usize] = 0.3 / 71.0);
    }
    cases.push(refused);
    let mut ring = TreeCase { name: "a ring of siblings, ".to_owned() + &wide.name, ..wide };
    ring.siblings.iter_mut().filter(|next| **next == 60).for_each(|next| *next = 20);
    for request in 0..count {
        let row = ring.target.row(request, 0);
        row.iter_mut().for_each(|prob| *prob *= 0.01);
    }
    cases.push(ring);
    let mut rings = TreeCase { threshold_single: 1e-6, ..new("a ring of children", 5, 0, 1) };
    rings.children.iter_mut().filter(|next| **next == 3).for_each(|next| *next = 1);
    cases.push(rings);
    cases.push(TreeCase { lost: (0..count as i32 * 8).step_by(3).collect(), ..new("lost slots", 8, 0, 3) });
    // the last token is that of drafts outside of the vocabulary
    let mut wild = TreeCase { wild: true, ..new("wild numbers", 12, 0, 5) };
    wild.tokens.iter_mut().step_by(4).for_each(|token| *token = vocab as i32 - 1);
    for (request, node) in (0..count).flat_map(|request| (0..12).map(move |node| (request, node))) {
        wild.target.row(request, node)[vocab - 1] = 0.0;
    }
    cases.push(wild);
    cases
}
