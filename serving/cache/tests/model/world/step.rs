//! Steps on the simulated device: the copies of a step, then its new tokens, as kernels would write them. What each
//! slot holds is compared with the model after every operation (`check`).

use attn_cache::{BlockSource, PageId, ReadCost, Segment, Sequence, Step};
use attn_core::batch::{Batch, Layout};

use super::{CAPACITY, Request, SEQUENCES, World, memory::copy};
use crate::{
    events::{Event, count},
    ops::Change,
};

/// A request of a step, as it was when the step was built.
struct Planned {
    keys: Vec<u64>,
    /// The tokens before the new ones.
    written: usize,
}

impl World {
    /// Builds a step that never runs: the next one makes its copies.
    pub(super) fn abandon(&mut self, mask: u8, grouped: bool) {
        let mut requests = with_new_tokens(&mut self.requests, mask);
        let step = &mut self.steps[usize::from(grouped)];
        step.build(&sequences(&mut requests)[..]).expect("within the capacity");
        assert_eq!(step.copies(), self.pending);
        let new = Step::new(&self.pages, CAPACITY).expect("a small step");
        *step = if grouped { new.group_prefixes() } else { new };
        count(Event::Abandoned, self.pending.len());
    }

    /// Builds and runs a step: the copies, all at once, then the new tokens.
    pub(super) fn step(&mut self, mask: u8, grouped: bool, cost: u8, change: Option<Change>) {
        let step = &mut self.steps[usize::from(grouped)];
        let mut requests = with_new_tokens(&mut self.requests, mask);
        let plans: Vec<Planned> =
            requests.iter().map(|request| Planned { keys: request.keys.clone(), written: request.written }).collect();
        let changed = change.and_then(|change| Some((change.sequence.checked_rem(plans.len())?, change.grows)));
        for (i, request) in requests.iter_mut().enumerate() {
            if changed.is_none_or(|(sequence, _)| sequence != i) {
                request.written = request.tokens.len();
            }
        }
        step.build(&sequences(&mut requests)[..]).expect("within the capacity");

        let pairs: Vec<[PageId; 2]> = step.copies().to_vec();
        assert_eq!(pairs, self.pending);
        for &[from, to] in &pairs {
            assert!(pairs.iter().all(|other| other[1] != from), "{from} is read and written");
            assert_eq!(pairs.iter().filter(|other| other[1] == to).count(), 1, "{to} is written once");
        }
        let before = self.device_memory.clone();
        copy(&before, &mut self.device_memory, &pairs, self.page_size);
        write_new_tokens(step, &plans, &mut self.device_memory);
        let layout = step.arrays().batch().validate().expect("a sound batch");
        assert_eq!(layout.batch(), plans.len());
        check_padding(step, &layout);
        check_levels(step, cost, &layout);

        if let Some((sequence, grows)) = changed {
            requests[sequence].change_in_step(grows);
        }
        let mut source = sequences(&mut requests);
        step.commit(&mut source[..]);
        assert!(step.copies().is_empty() && source[..].sequences() == plans.len());
        self.pending.clear();
        self.drop_copies();
    }
}

/// The requests that `mask` chooses, of those on the device with tokens that no step has written.
fn with_new_tokens(requests: &mut [Request], mask: u8) -> Vec<&mut Request> {
    let chosen = |(i, request): &(usize, &mut Request)| {
        mask >> (i % 8) & 1 == 1 && !request.swapped && request.tokens.len() > request.written
    };
    requests.iter_mut().enumerate().filter(chosen).map(|(_, request)| request).collect()
}

fn sequences<'a>(requests: &'a mut [&mut Request]) -> Vec<&'a mut Sequence> {
    requests.iter_mut().map(|request| &mut request.sequence).collect()
}

/// Writes the key of each new token to its slot.
fn write_new_tokens(step: &Step, plans: &[Planned], memory: &mut [u64]) {
    let arrays = step.arrays();
    let mut slots = Vec::new();
    for ((&slot, &position), &request) in arrays.slots.iter().zip(arrays.positions).zip(arrays.requests) {
        let Planned { keys, written } = &plans[step.order()[request as usize]];
        assert!((*written..keys.len()).contains(&(position as usize)));
        memory[slot as usize] = keys[position as usize];
        slots.push(slot);
    }
    slots.sort_unstable();
    slots.dedup();
    let tokens: usize = plans.iter().map(|plan| plan.keys.len() - plan.written).sum();
    assert_eq!(slots.len(), tokens, "each new token has a slot of its own");
}

/// The arrays in the lengths of the capacity describe the same keys, and pad with what nothing reads.
fn check_padding(step: &Step, layout: &Layout) {
    let (arrays, padded) = (step.arrays(), step.padded());
    let of_capacity = padded.batch().validate().expect("padding is harmless");
    assert_eq!((of_capacity.batch(), of_capacity.kv_tokens()), (SEQUENCES, layout.kv_tokens()));
    let of_table = Batch::block_table(padded.qo_indptr, &padded.padded_table()).validate().expect("sound");
    assert_eq!(of_table, of_capacity);
    let (tokens, entries) = (arrays.slots.len(), arrays.page_indices.len());
    assert!(padded.slots[tokens..].iter().all(|&slot| slot == -1));
    assert!(padded.requests[tokens..].iter().all(|&request| request == -1));
    let zeros = [&padded.positions[tokens..], &padded.page_indices[entries..]];
    assert!(zeros.iter().all(|array| array.iter().all(|&word| word == 0)));
}

/// The levels of a cascade hold the keys of the flat batch.
fn check_levels(step: &mut Step, cost: u8, layout: &Layout) {
    let read = ReadCost { tile_queries: 4, state_keys: u64::from(cost % 4) };
    let always = |segment: &Segment| if segment.requests > 1 { 0 } else { segment.keys as u64 };
    let levels = if cost >= 200 { step.choose_levels(&always) } else { step.choose_levels(&read) };
    assert!((1..=3).contains(&levels));
    count(Event::TwoLevels, usize::from(levels == 2));
    count(Event::ThreeLevels, usize::from(levels == 3));
    count(Event::Regrouped, usize::from(!step.order().is_sorted()));
    let tables = step.levels();
    assert_eq!(tables.len(), levels);
    let cascade = Batch::cascade(step.arrays().qo_indptr, &tables).validate().expect("a sound cascade");
    if layout.batch() > 0 {
        let flat = cascade.flattened().expect("shared pages are full");
        let (got, want) = (flat.pages().expect("paged"), layout.pages().expect("paged"));
        assert_eq!((flat.kv_indptr(), got.indptr()), (layout.kv_indptr(), want.indptr()));
        // released entries may name another held page of the group
        let mut pairs = got.indices().iter().zip(want.indices());
        assert!(pairs.all(|(got, want)| got == want));
    }
}

impl Request {
    /// Appends a token while a step is under way; unless it `grows`, in place of its last token, which is taken back.
    /// The step does not write the token that is appended.
    fn change_in_step(&mut self, grows: bool) {
        if !grows {
            self.sequence.truncate(self.tokens.len() - 1).expect("the token is new");
            let first_gone = self.first_gone();
            self.tokens.pop();
            self.keys.pop();
            self.released.truncate(self.tokens.len());
            self.written = self.written.min(self.tokens.len());
            // a sequence of which nothing that has moved is left can be cached again
            if first_gone.is_none_or(|first| first >= self.tokens.len()) {
                (self.moved, self.least_len) = (None, 0);
            }
        }
        if self.sequence.append(1).is_ok() {
            self.push(&[2]);
        } else if grows {
            self.written = self.tokens.len();
        }
        count(Event::ChangedInStep, 1);
    }
}
