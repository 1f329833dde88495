//! Runs a case of verified trees, twice: on an engine, or in the emulated kernel.

use attn::Engine;
use attn::sampling::{PerRow, TreeDrafts, TreeOut, verify_tree};

use attn_kernels::launch::VerifyTreeParams;

use super::TreeCase;
use crate::simt::HostVerifier;
use crate::verify::{How, UNWRITTEN, Verified, numbers, requests, twice};

impl TreeCase {
    fn before(&self) -> (Verified, Vec<u64>) {
        let [count, nodes, _] = self.target_probs.shape;
        let (seeds, positions) = requests(count);
        let none = vec![UNWRITTEN; count * nodes];
        let accepted = vec![UNWRITTEN; count];
        (Verified { ids: none.clone(), accepted, emitted: Vec::new(), accept_index: none, positions }, seeds)
    }

    /// Draft ids, slots, first children and next siblings as a device has them.
    fn on_device(&self) -> [Vec<i32>; 4] {
        let [count, nodes, vocab] = self.target_probs.shape;
        let out_of_range = |values: &[i32], none: i32, end: usize| {
            let instead = [i32::MIN, end as i32, -2, i32::MAX, -1];
            let of = |(i, &x): (usize, &i32)| if self.links_out_of_range && x == none { instead[i % 5] } else { x };
            values.iter().enumerate().map(of).collect::<Vec<i32>>()
        };
        let lost = |(i, &slot): (usize, &i32)| {
            let instead = [-1, (count * nodes) as i32, i32::MIN, i32::MAX];
            if self.slots_out_of_range.contains(&slot) { instead[i % 4] } else { slot }
        };
        [
            out_of_range(&self.draft_ids, vocab as i32 - 1, vocab),
            self.retrieve_index.iter().enumerate().map(lost).collect(),
            out_of_range(&self.retrieve_next_token, -1, nodes),
            out_of_range(&self.retrieve_next_sibling, -1, nodes),
        ]
    }

    /// Verifies twice on an engine.
    ///
    /// # Panics
    /// It fails.
    pub fn run(&self, engine: &Engine, how: How) -> Verified {
        let (before, seeds) = self.before();
        let target = self.target_probs.upload(engine);
        let arrays = if engine.is_cpu() {
            [&self.draft_ids, &self.retrieve_index, &self.retrieve_next_token, &self.retrieve_next_sibling]
                .map(Clone::clone)
        } else {
            self.on_device()
        };
        let [draft_ids, retrieve_index, retrieve_next_token, retrieve_next_sibling] =
            arrays.map(|array| numbers(engine, &array));
        let seeds = numbers(engine, &seeds);
        let (mut ids, mut positions) = (numbers(engine, &before.ids), numbers(engine, &before.positions));
        let (mut accepted, mut accept_index) =
            (numbers(engine, &before.accepted), numbers(engine, &before.accept_index));
        twice(engine, how, |stream| {
            let drafts = TreeDrafts {
                draft_ids: draft_ids.array(),
                retrieve_index: retrieve_index.array(),
                retrieve_next_token: retrieve_next_token.array(),
                retrieve_next_sibling: retrieve_next_sibling.array(),
                target_probs: self.target_probs.tensor(&target)?,
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
            // the CPU refuses slots out of range, so it had them: a device writes nothing there, and -1 for their index
            for &slot in &self.slots_out_of_range {
                verified.ids[slot as usize] = UNWRITTEN;
                verified.accept_index.iter_mut().filter(|index| **index == slot).for_each(|index| *index = -1);
            }
        }
        verified
    }

    /// Verifies twice in the emulated kernel.
    pub fn run_emulated(&self, verifier: &HostVerifier, seed: u32) -> Verified {
        let (mut out, seeds) = self.before();
        let [count, nodes, vocab] = self.target_probs.shape;
        let [draft_ids, retrieve_index, retrieve_next_token, retrieve_next_sibling] = self.on_device();
        let [target_request, target_row] = self.target_probs.strides();
        let params = VerifyTreeParams {
            target_probs: self.target_probs.address(),
            target_request,
            target_row,
            draft_ids: draft_ids.as_ptr() as u64,
            retrieve_index: retrieve_index.as_ptr() as u64,
            retrieve_next_token: retrieve_next_token.as_ptr() as u64,
            retrieve_next_sibling: retrieve_next_sibling.as_ptr() as u64,
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
            wide: i32::from(self.target_probs.aligned()),
            ..VerifyTreeParams::default()
        };
        for round in 0..2 {
            verifier.tree(&params, count, nodes, seed + round);
        }
        out
    }
}
