//! The caches under test beside the model, and a simulated device that runs the steps.

mod check;
mod memory;
mod shrink;
mod step;
mod swap;

use std::collections::{BTreeMap, BTreeSet};

use attn_cache::{CacheError, Hit, PageId, Pages, Prefix, RELEASED, Sequence, Step, StepCapacity};

use memory::{namespace, next_key};

use crate::events::{Event, count};
use crate::naive::{Naive, Path};
use crate::ops::{Op, prompt};

/// Sequences at a time.
const SEQUENCES: usize = 7;

const CAPACITY: StepCapacity =
    StepCapacity { sequences: SEQUENCES, tokens: 1000, pages: 1000, pages_per_sequence: 300, levels: 3 };

/// A sequence, and what it should be.
struct Request {
    sequence: Sequence,
    namespace: usize,
    tokens: Vec<u32>,
    /// The keys of the tokens; those of a sequence that was compacted depend on tokens that are gone, too.
    keys: Vec<u64>,
    written: usize,
    released: Vec<bool>,
    /// The first position whose token has moved.
    moved: Option<usize>,
    /// The next query of a sequence that is at least this long sees nothing that is gone.
    least_len: usize,
    lock: Path,
    swapped: bool,
}

impl Request {
    fn push(&mut self, tokens: &[u32]) {
        for &token in tokens {
            self.tokens.push(token);
            self.keys.push(next_key(self.keys.last().copied().unwrap_or(self.namespace as u64), token));
            self.released.push(false);
        }
    }

    /// The first position that was released, or from which tokens have moved.
    fn first_gone(&self) -> Option<usize> {
        let released = self.released.iter().position(|&released| released);
        released.into_iter().chain(self.moved).min()
    }
}

/// The caches under test, the model of them, and the memory of both devices.
pub(crate) struct World {
    page_size: usize,
    pages: Pages,
    host: Pages,
    prefix: Prefix,
    /// In the order of requests, and in that of shared prefixes.
    steps: [Step; 2],
    naive: Naive,
    requests: Vec<Request>,
    /// Hits that are kept without a sequence.
    hits: Vec<(Hit, Path)>,
    /// Copies that no step has made, from the source whose content counts.
    pending: Vec<[PageId; 2]>,
    device_memory: Vec<u64>,
    host_memory: Vec<u64>,
}

impl World {
    pub(crate) fn new(page_size: usize, device: usize, host: usize) -> Self {
        let pages = Pages::new(device, page_size).expect("a small pool");
        let step = || Step::new(&pages, CAPACITY).expect("a small step");
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
            Op::Step { mask, grouped, cost, change } => self.step(mask, grouped, cost, change),
            Op::Abandon { mask, grouped } => self.abandon(mask, grouped),
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
            Op::Release { sequence, begin, len } => {
                if let Some(request) = pick(sequence) {
                    self.release(request, begin..begin + len);
                }
            }
            Op::Compact { sequence } => pick(sequence).map_or((), |request| self.compact(request)),
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

    /// Copies to pages that no one reads are not made.
    fn drop_copies(&mut self) {
        let before = self.pending.len();
        let on_device = self.requests.iter().filter(|request| !request.swapped);
        let read: BTreeSet<PageId> = on_device.flat_map(|request| request.sequence.page_ids()).copied().collect();
        self.pending.retain(|[_, to]| read.contains(to));
        count(Event::CopyDropped, before - self.pending.len());
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
        let mut request = Request {
            sequence: Sequence::with_prefix(&self.pages, hit),
            namespace: number,
            tokens: Vec::new(),
            keys: Vec::new(),
            written: found,
            released: Vec::new(),
            moved: None,
            least_len: 0,
            lock: path,
            swapped: false,
        };
        request.push(&tokens[..found]);
        self.requests.push(request);
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
        request.push(tokens);
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
        let (tokens, keys, released) = (request.tokens.clone(), request.keys.clone(), request.released.clone());
        let (moved, least_len) = (request.moved, request.least_len);
        let fork =
            Request { sequence, namespace, tokens, keys, written, released, moved, least_len, lock, swapped: false };
        self.naive.lock(&fork.lock);
        self.requests.push(fork);
        if self.requests.len() > SEQUENCES {
            self.end(0);
        }
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
        if request.moved.is_some() {
            let position = request.first_gone().expect("tokens have moved");
            assert_eq!(done, Err(CacheError::Compacted { position }));
            count(Event::CacheRefused, 1);
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
        drop(request);
        self.drop_copies();
    }

    /// How often each page of the device is held outside of the tree.
    fn held(&self) -> BTreeMap<PageId, usize> {
        let mut held = BTreeMap::new();
        let on_device = self.requests.iter().filter(|request| !request.swapped);
        let tables = on_device.flat_map(|request| request.sequence.page_ids()).copied();
        let hits = self.hits.iter().flat_map(|(hit, _)| hit.pages.ids().iter().copied());
        // a copy refers to its source; its target is that of those who read it
        let pages = tables.chain(hits).chain(self.pending.iter().map(|copy| copy[0]));
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
        assert_eq!((self.pages.stats().used, self.host.stats().used), (0, 0), "a page has leaked");
    }
}
