//! The caches under test beside the model, and a simulated device that runs the steps.

mod check;
mod memory;
mod step;

use std::collections::BTreeMap;

use attn_cache::{CacheError, Hit, PageId, Pages, Prefix, RELEASED, Sequence, Step, StepCapacity};

use memory::{copy, namespace};

use crate::{
    events::{Event, count},
    naive::{Naive, Path},
    ops::{Op, prompt},
};

/// Sequences at a time.
const SEQUENCES: usize = 7;

/// A sequence, and what it should be.
struct Request {
    sequence: Sequence,
    namespace: usize,
    tokens: Vec<u32>,
    written: usize,
    released: Vec<bool>,
    lock: Path,
    swapped: bool,
}

pub(crate) struct World {
    page_size: usize,
    pages: Pages,
    host: Pages,
    prefix: Prefix,
    steps: [Step; 2],
    naive: Naive,
    requests: Vec<Request>,
    hits: Vec<(Hit, Path)>,
    /// Copies that no step has made, from the source whose content counts.
    pending: Vec<[PageId; 2]>,
    device_memory: Vec<u64>,
    host_memory: Vec<u64>,
}

impl World {
    pub(crate) fn new(page_size: usize, device: usize, host: usize) -> Self {
        let pages = Pages::new(device, page_size).expect("a small pool");
        let capacity =
            StepCapacity { sequences: SEQUENCES, tokens: 1000, pages: 1000, pages_per_sequence: 300, levels: 3 };
        let step = || Step::new(&pages, capacity).expect("a small step");
        World {
            page_size,
            prefix: Prefix::new(&pages),
            steps: [step(), step().group_prefixes()],
            naive: Naive::new(page_size),
            requests: Vec::new(),
            hits: Vec::new(),
            pending: Vec::new(),
            device_memory: vec![0; device * page_size],
            host_memory: vec![0; host * page_size],
            host: Pages::new(host, page_size).expect("a small pool"),
            pages,
        }
    }

    pub(crate) fn apply(&mut self, op: Op) {
        let requests = self.requests.len();
        let pick = |sequence: usize| sequence.checked_rem(requests);
        match op {
            Op::Admit { namespace, prompt: seed, len } => self.admit(namespace, &prompt(seed, len)),
            Op::Lookup { namespace: number, prompt: seed, len } => {
                let path = self.naive.lookup(number, &prompt(seed, len));
                let hit = self.prefix.lookup(&namespace(number), &prompt(seed, len));
                self.check_hit(&hit, &path);
                self.hits.push((hit, path));
            }
            Op::DropHit { hit } => {
                if let Some(hit) = hit.checked_rem(self.hits.len()) {
                    let (_, path) = self.hits.swap_remove(hit);
                    self.naive.unlock(&path);
                }
            }
            Op::Append { sequence, n, token } => {
                if let Some(request) = pick(sequence) {
                    self.append(request, &vec![token; n]);
                }
            }
            Op::Step { mask, grouped, cost } => self.step(mask, grouped, cost),
            Op::Fork { sequence } => pick(sequence).map_or((), |request| self.fork(request)),
            Op::Truncate { sequence, by } => pick(sequence).map_or((), |request| self.truncate(request, by)),
            Op::Withdraw { sequence, n } => {
                if let Some(request) = pick(sequence)
                    && self.append(request, &vec![0; n])
                {
                    self.truncate(request, n);
                    self.fork(request);
                    self.append(self.requests.len() - 1, &[1]);
                }
            }
            Op::Window { sequence, window, sinks } => {
                if let Some(request) = pick(sequence) {
                    self.window(request, window, sinks);
                }
            }
            Op::Cache { sequence, keep } => pick(sequence).map_or((), |request| self.cache(request, keep)),
            Op::End { sequence } => pick(sequence).map_or((), |request| self.end(request)),
            Op::Evict { want } => {
                let held = self.held();
                let (freed, gone) = self.naive.evict(want, |page| held.contains_key(&page));
                let evicted = self.prefix.evict(want);
                assert_eq!((evicted.freed, evicted.tokens), (freed, gone * self.page_size));
            }
            Op::Reserve { need } => {
                self.reserve(need);
            }
            Op::ClearNamespace { namespace: number } => {
                let held = self.held();
                let (freed, gone) = self.naive.clear_namespace(number, |page| held.contains_key(&page));
                let evicted = self.prefix.clear_namespace(&namespace(number));
                assert_eq!((evicted.freed, evicted.tokens), (freed, gone * self.page_size));
                count(Event::ClearedNamespace, usize::from(gone > 0));
            }
            Op::SwapOut { sequence } => pick(sequence).map_or((), |request| self.swap_out(request)),
            Op::SwapIn { sequence } => pick(sequence).map_or((), |request| self.swap_in(request)),
        }
    }

    fn check_hit(&self, hit: &Hit, path: &Path) {
        assert_eq!((hit.tokens, hit.lock.tokens()), (path.1.len(), path.1.len()));
        let ends = (1..=hit.pages.len()).map(|pages| pages * self.page_size);
        let want: Vec<PageId> = ends.map(|end| self.naive.page(path.0, &path.1[..end])).collect();
        assert_eq!(hit.pages.ids(), want);
    }

    fn admit(&mut self, number: usize, tokens: &[u32]) {
        if self.requests.len() == SEQUENCES {
            return self.end(0);
        }
        let path = self.naive.lookup(number, tokens);
        let hit = self.prefix.lookup(&namespace(number), tokens);
        self.check_hit(&hit, &path);
        let found = hit.tokens;
        count(Event::Hit, usize::from(found > 0));
        assert!(found < tokens.len() && hit.pages.len() * self.page_size == found);
        self.requests.push(Request {
            sequence: Sequence::with_prefix(&self.pages, hit),
            namespace: number,
            tokens: tokens[..found].to_vec(),
            written: found,
            released: vec![false; found],
            lock: path,
            swapped: false,
        });
        let last = self.requests.len() - 1;
        if !self.append(last, &tokens[found..]) {
            self.end(last);
        }
    }

    /// Appends as an engine does: make pages free first, give up where that is not possible.
    fn append(&mut self, index: usize, tokens: &[u32]) -> bool {
        let request = &mut self.requests[index];
        if request.swapped {
            assert_eq!(request.sequence.append(tokens.len()).err(), Some(CacheError::SwappedOut));
            return false;
        }
        let (need, before) = (request.sequence.pages_needed(tokens.len()), request.sequence.page_ids().to_vec());
        let stats = self.pages.stats();
        if stats.free < need {
            match request.sequence.append(tokens.len()).map(|_| ()) {
                Err(CacheError::OutOfPages(error)) => {
                    assert_eq!((error.need, error.free, error.evictable), (need, stats.free, stats.evictable));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!((self.pages.stats(), request.sequence.page_ids()), (stats, &before[..]));
            assert_eq!(request.sequence.len(), request.tokens.len());
            let made = self.reserve(need);
            count(if made { Event::MadeRoom } else { Event::OutOfPages }, 1);
            if !made {
                return false;
            }
        }
        let request = &mut self.requests[index];
        // fewer than before if the tree no longer shares the last page
        let (free, need) = (self.pages.stats().free, request.sequence.pages_needed(tokens.len()));
        let slots: Vec<i64> = request.sequence.append(tokens.len()).expect("pages are free").collect();
        request.tokens.extend_from_slice(tokens);
        request.released.resize(request.tokens.len(), false);
        assert_eq!(slots.len(), tokens.len());
        let after = request.sequence.page_ids();
        assert_eq!(self.pages.stats().free, free - need);
        assert_eq!(after.len(), request.tokens.len().div_ceil(self.page_size));
        if let Some(last) = before.len().checked_sub(1)
            && before[last] != after[last]
        {
            let from = self.pending.iter().find(|copy| copy[1] == before[last]).map_or(before[last], |copy| copy[0]);
            count(Event::CopyOnWrite, 1);
            count(Event::ChainedCopy, usize::from(from != before[last]));
            self.pending.push([from, after[last]]);
        }
        true
    }

    fn reserve(&mut self, need: usize) -> bool {
        let (stats, held) = (self.pages.stats(), self.held());
        match self.prefix.reserve(need) {
            Ok(evicted) => {
                assert!(need <= stats.free + stats.evictable && self.pages.stats().free >= need);
                let want = need.saturating_sub(stats.free);
                let (freed, gone) = self.naive.evict(want, |page| held.contains_key(&page));
                assert_eq!((evicted.freed, evicted.tokens), (freed, gone * self.page_size));
                assert_eq!(freed, want);
                count(Event::EvictedHeldPage, gone - freed);
                true
            }
            Err(error) => {
                assert!(need > stats.free + stats.evictable);
                assert_eq!((error.need, error.free, error.evictable), (need, stats.free, stats.evictable));
                assert_eq!(self.pages.stats(), stats);
                false
            }
        }
    }

    fn fork(&mut self, index: usize) {
        let request = &self.requests[index];
        let forked = request.sequence.fork();
        let new = request.tokens.len() - request.written;
        if request.swapped || new > 0 {
            let want = if request.swapped { CacheError::SwappedOut } else { CacheError::Unwritten { tokens: new } };
            assert_eq!(forked.err(), Some(want));
            count(Event::ForkRefused, 1);
            return;
        }
        let sequence = forked.expect("everything is written");
        count(Event::Forked, 1);
        let (namespace, written, lock) = (request.namespace, request.written, request.lock.clone());
        let (tokens, released) = (request.tokens.clone(), request.released.clone());
        self.naive.lock(&lock);
        self.requests.push(Request { sequence, namespace, tokens, written, released, lock, swapped: false });
        if self.requests.len() > SEQUENCES {
            self.end(0);
        }
    }

    fn truncate(&mut self, index: usize, by: usize) {
        let request = &mut self.requests[index];
        let too_long = request.sequence.truncate(request.tokens.len() + 1).expect_err("it is shorter");
        let len = request.tokens.len().saturating_sub(by);
        let done = request.sequence.truncate(len);
        let partial = !len.is_multiple_of(self.page_size);
        if request.swapped {
            assert_eq!((too_long, done), (CacheError::SwappedOut, Err(CacheError::SwappedOut)));
        } else if partial && request.released[len - 1] {
            assert_eq!(done, Err(CacheError::Released { position: len - 1 }));
        } else {
            assert_eq!(done, Ok(()));
            request.tokens.truncate(len);
            request.released.truncate(len);
            request.written = request.written.min(len);
            let last = request.sequence.page_ids().last();
            count(
                Event::TruncatedIntoShared,
                usize::from(partial && last.is_some_and(|&page| self.pages.refs(page) > 1)),
            );
        }
    }

    fn window(&mut self, index: usize, window: usize, sinks: usize) {
        let page_size = self.page_size;
        let request = &mut self.requests[index];
        let released = request.sequence.window(window, sinks);
        let first_seen = (request.written + 1).saturating_sub(window.max(1));
        let mut newly = 0;
        for (page, positions) in request.released.chunks_exact_mut(page_size).enumerate() {
            let (begin, end) = (page * page_size, (page + 1) * page_size);
            if !request.swapped && begin >= sinks && end <= first_seen && end <= request.written {
                newly += usize::from(!positions[0]);
                positions.fill(true);
            }
        }
        assert_eq!(released, newly, "a page is released once");
        count(Event::Released, newly);
    }

    fn cache(&mut self, index: usize, keep: usize) {
        let request = &mut self.requests[index];
        let tokens = request.tokens[..keep.min(request.tokens.len())].to_vec();
        let before = request.sequence.page_ids().to_vec();
        let done = request.sequence.cache(&self.prefix, &namespace(request.namespace), &tokens);
        if request.swapped {
            assert_eq!(done, Err(CacheError::SwappedOut));
            return;
        }
        if tokens.len() > request.written {
            assert_eq!(done, Err(CacheError::TooManyTokens { tokens: tokens.len(), len: request.written }));
            return;
        }
        let held = request.released.iter().position(|&released| released).unwrap_or(tokens.len());
        let kept = &tokens[..held.min(tokens.len())];
        let (path, reused) = self.naive.insert(request.namespace, kept, &before);
        assert_eq!(done, Ok(reused));
        let old = std::mem::replace(&mut request.lock, path);
        self.naive.unlock(&old);
        for (i, &page) in request.sequence.page_ids().iter().enumerate() {
            let end = (i + 1) * self.page_size;
            let of_tree = end <= request.lock.1.len();
            let want = if of_tree { self.naive.page(request.namespace, &request.tokens[..end]) } else { before[i] };
            assert_eq!(page, want, "the sequence has the pages of the tree, and its own after them");
            count(Event::Remap, usize::from(page != before[i]));
        }
    }

    fn end(&mut self, index: usize) {
        let request = self.requests.swap_remove(index);
        self.naive.unlock(&request.lock);
    }

    fn swap_out(&mut self, index: usize) {
        let request = &mut self.requests[index];
        let (free, held, new) =
            (self.host.stats().free, request.sequence.held_pages(), request.tokens.len() - request.written);
        match request.sequence.swap_out(&self.host) {
            Err(CacheError::SwappedOut) => assert!(request.swapped),
            Err(CacheError::Unwritten { tokens }) => assert!(tokens == new && new > 0),
            Err(CacheError::OutOfPages(error)) => {
                assert!(error.need == held && error.free == free && held > free);
                count(Event::HostFull, 1);
            }
            Err(other) => panic!("{other}"),
            Ok(swap) => {
                assert!(!request.swapped && new == 0 && swap.pairs().len() == held);
                copy(&self.device_memory, &mut self.host_memory, swap.pairs(), self.page_size);
                request.swapped = true;
                count(Event::SwappedOut, usize::from(held > 0));
                let old = std::mem::take(&mut request.lock);
                self.naive.unlock(&old);
            }
        }
    }

    fn swap_in(&mut self, index: usize) {
        let request = &mut self.requests[index];
        let (free, held) = (self.pages.stats().free, request.sequence.held_pages());
        match request.sequence.swap_in() {
            Err(CacheError::NotSwappedOut) => assert!(!request.swapped),
            Err(CacheError::OutOfPages(error)) => assert!(error.need == held && error.free == free && held > free),
            Err(other) => panic!("{other}"),
            Ok(swap) => {
                assert!(request.swapped && swap.pairs().len() == held);
                copy(&self.host_memory, &mut self.device_memory, swap.pairs(), self.page_size);
                request.swapped = false;
                count(Event::SwappedIn, usize::from(held > 0));
            }
        }
    }

    /// How often each page of the device is held outside of the tree.
    fn held(&self) -> BTreeMap<PageId, usize> {
        let mut held = BTreeMap::new();
        let on_device = self.requests.iter().filter(|request| !request.swapped);
        let tables = on_device.flat_map(|request| request.sequence.page_ids()).copied();
        let hits = self.hits.iter().flat_map(|(hit, _)| hit.pages.ids().iter().copied());
        let pages = tables.chain(hits).chain(self.pending.iter().flatten().copied());
        pages.filter(|&page| page != RELEASED).for_each(|page| *held.entry(page).or_insert(0) += 1);
        held
    }

    /// Ends everything: no page may leak.
    pub(crate) fn close(mut self) {
        self.hits.clear();
        self.requests.clear();
        self.prefix.check().expect("the tree is sound");
        assert_eq!(self.prefix.stats().protected, 0);
        let _ = self.prefix.clear();
        assert_eq!(self.prefix.stats().tokens, 0);
        for step in &mut self.steps {
            let mut none: [Sequence; 0] = [];
            step.build(&none[..]).expect("an empty step");
            step.commit(&mut none[..]);
        }
        assert_eq!((self.pages.stats().used, self.host.stats().used), (0, 0), "a page has leaked");
    }
}
