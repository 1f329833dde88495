//! Steps on the simulated device.

use attn_cache::{BlockSource, PageId, ReadCost, Segment, Sequence, Step};
use attn_core::batch::Batch;

use super::memory::{copy, next_key};
use super::{CAPACITY, Request, SEQUENCES, World};
use crate::events::{Event, count};

impl World {
    /// Builds a step that never runs: the next one makes its copies.
    pub(super) fn abandon(&mut self, mask: u8, grouped: bool) {
        let requests = self.requests.iter_mut().enumerate().filter(|(i, request)| {
            mask >> (i % 8) & 1 == 1 && !request.swapped && request.tokens.len() > request.written
        });
        let source: Vec<&mut Sequence> = requests.map(|(_, request)| &mut request.sequence).collect();
        let step = &mut self.steps[usize::from(grouped)];
        step.build(&source[..]).expect("within the capacity");
        assert_eq!(step.copies(), self.pending);
        let new = Step::new(&self.pages, CAPACITY).expect("a small step");
        *step = if grouped { new.group_prefixes() } else { new };
        count(Event::Abandoned, self.pending.len());
    }

    /// Builds and runs a step: the copies, all at once, then the new tokens.
    pub(super) fn step(&mut self, mask: u8, grouped: bool, cost: u8, change: Option<(usize, bool)>) {
        let step = &mut self.steps[usize::from(grouped)];
        let chosen = |(i, request): &(usize, &mut Request)| {
            mask >> (i % 8) & 1 == 1 && !request.swapped && request.tokens.len() > request.written
        };
        let mut requests: Vec<_> =
            self.requests.iter_mut().enumerate().filter(chosen).map(|(_, request)| request).collect();
        let plans: Vec<(Vec<u64>, usize)> =
            requests.iter().map(|request| (request.keys.clone(), request.written)).collect();
        let namespaces: Vec<usize> = requests.iter().map(|request| request.namespace).collect();
        let change = change.and_then(|(which, grows)| Some((which.checked_rem(plans.len())?, grows)));
        let in_step = |(i, request): (usize, &mut &mut Request)| {
            if change.is_none_or(|(which, _)| which != i) {
                request.written = request.tokens.len();
            }
        };
        requests.iter_mut().enumerate().for_each(in_step);
        // those that the step changes, apart from their sequences
        let mut sequences = Vec::new();
        let mut changed = None;
        for (i, request) in requests.into_iter().enumerate() {
            let Request { sequence, tokens, keys, written, released, moved, least_len, .. } = request;
            sequences.push(sequence);
            if let Some((which, grows)) = change
                && which == i
            {
                changed = Some((which, grows, tokens, keys, written, released, (moved, least_len)));
            }
        }
        let mut source: Vec<&mut Sequence> = sequences;
        step.build(&source[..]).expect("within the capacity");

        let pairs: Vec<[PageId; 2]> = step.copies().to_vec();
        assert_eq!(pairs, self.pending);
        for &[from, to] in &pairs {
            assert!(pairs.iter().all(|other| other[1] != from), "{from} is read and written");
            assert_eq!(pairs.iter().filter(|other| other[1] == to).count(), 1, "{to} is written once");
        }
        let before = self.device_memory.clone();
        copy(&before, &mut self.device_memory, &pairs, self.page_size);

        let arrays = step.arrays();
        let mut written = Vec::new();
        for ((&slot, &position), &request) in arrays.slots.iter().zip(arrays.positions).zip(arrays.requests) {
            let (keys, first) = &plans[step.order()[request as usize]];
            assert!((*first..keys.len()).contains(&(position as usize)));
            self.device_memory[slot as usize] = keys[position as usize];
            written.push(slot);
        }
        written.sort_unstable();
        written.dedup();
        let tokens: usize = plans.iter().map(|(keys, first)| keys.len() - first).sum();
        assert_eq!(written.len(), tokens, "each new token has a slot of its own");

        let layout = arrays.batch().validate().expect("a sound batch");
        let padded = step.padded();
        let of_capacity = padded.batch().validate().expect("padding is harmless");
        assert_eq!((layout.batch(), of_capacity.batch()), (plans.len(), SEQUENCES));
        assert_eq!(layout.kv_tokens(), of_capacity.kv_tokens());
        let of_table = Batch::block_table(padded.qo_indptr, &padded.padded_table()).validate().expect("sound");
        assert_eq!(of_table, of_capacity);
        assert!(padded.slots[tokens..].iter().all(|&slot| slot == -1));
        assert!(padded.requests[tokens..].iter().all(|&request| request == -1));
        let entries = arrays.page_indices.len();
        let zeros = [&padded.positions[tokens..], &padded.page_indices[entries..]];
        assert!(zeros.iter().all(|array| array.iter().all(|&word| word == 0)));

        let read = ReadCost { tile_queries: 4, state_keys: u64::from(cost % 4) };
        let always = |segment: &Segment| if segment.requests > 1 { 0 } else { segment.keys as u64 };
        let levels = if cost >= 200 { step.choose_levels(&always) } else { step.choose_levels(&read) };
        assert!((1..=3).contains(&levels));
        count(Event::TwoLevels, usize::from(levels == 2));
        count(Event::ThreeLevels, usize::from(levels == 3));
        count(Event::Regrouped, usize::from(!step.order().is_sorted()));
        let tables = step.levels();
        assert_eq!(tables.len(), levels);
        let arrays = step.arrays();
        let cascade = Batch::cascade(arrays.qo_indptr, &tables).validate().expect("a sound cascade");
        if !plans.is_empty() {
            let flat = cascade.flattened().expect("shared pages are full");
            let (got, want) = (flat.pages().expect("paged"), layout.pages().expect("paged"));
            assert_eq!((flat.kv_indptr(), got.indptr()), (layout.kv_indptr(), want.indptr()));
            // released entries may name another held page of the group
            let mut ours = got.indices().iter().zip(want.indices());
            assert!(ours.all(|(a, b)| a == b));
        }
        if let Some((which, grows, tokens, keys, written, released, (moved, least_len))) = changed {
            // what was appended later is not written, nor is what takes the place of a token that was taken back
            let sequence = &mut *source[which];
            if !grows {
                sequence.truncate(tokens.len() - 1).expect("the token is new");
                tokens.pop();
                keys.pop();
                *written = (*written).min(tokens.len());
                // a sequence of which nothing that has moved is left can be cached again
                let first = released.iter().position(|&released| released).into_iter().chain(*moved).min();
                if first.is_none_or(|first| first >= tokens.len()) {
                    (*moved, *least_len) = (None, 0);
                }
            }
            if sequence.append(1).is_ok() {
                tokens.push(2);
                keys.push(next_key(keys.last().copied().unwrap_or(namespaces[which] as u64), 2));
            } else if grows {
                *written = tokens.len();
            }
            released.resize(tokens.len(), false);
            count(Event::ChangedInStep, 1);
        }
        step.commit(&mut source[..]);
        assert!(step.copies().is_empty() && source[..].sequences() == plans.len());
        self.pending.clear();
        self.drop_copies();
    }
}
