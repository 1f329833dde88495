//! What makes a sequence shorter or frees its pages: truncation, windows, released ranges, compaction.

use std::ops::Range;

use attn_cache::CacheError;

use super::World;
use crate::events::{Event, count};

impl World {
    pub(super) fn truncate(&mut self, index: usize, by: usize) {
        let request = &mut self.requests[index];
        let too_long = request.sequence.truncate(request.tokens.len() + 1).expect_err("it is shorter");
        let len = request.tokens.len().saturating_sub(by);
        let done = request.sequence.truncate(len);
        let partial = !len.is_multiple_of(self.page_size);
        let gone = request.first_gone().filter(|&first| first < len);
        if request.swapped {
            assert_eq!((too_long, done), (CacheError::SwappedOut, Err(CacheError::SwappedOut)));
        } else if gone.is_some() && len < request.least_len {
            let Err(CacheError::Released { position }) = done else { panic!("{done:?}") };
            assert!(request.released[position] || request.first_gone() == Some(position));
            count(Event::TruncateRefused, 1);
        } else {
            assert_eq!(done, Ok(()));
            request.tokens.truncate(len);
            request.keys.truncate(len);
            request.released.truncate(len);
            request.written = request.written.min(len);
            if gone.is_none() {
                (request.moved, request.least_len) = (None, 0);
            }
            let last = request.sequence.page_ids().last();
            count(
                Event::TruncatedIntoShared,
                usize::from(partial && last.is_some_and(|&page| self.pages.refs(page) > 1)),
            );
            self.drop_copies();
        }
    }

    pub(super) fn window(&mut self, index: usize, window: usize, sinks: usize) {
        let page_size = self.page_size;
        let request = &mut self.requests[index];
        let released = request.sequence.window(window, sinks);
        let first_seen = (request.written + 1).saturating_sub(window.max(1));
        let mut newly = 0;
        for (page, positions) in request.released.chunks_exact_mut(page_size).enumerate() {
            let (begin, end) = (page * page_size, (page + 1) * page_size);
            if !request.swapped && begin >= sinks && end <= first_seen && end <= request.written {
                if !positions[0] {
                    newly += 1;
                    // the query at a position `q` sees the keys after `q - window`
                    request.least_len = request.least_len.max(end - 1 + window.max(1));
                }
                positions.fill(true);
            }
        }
        assert_eq!(released, newly, "a page is released once");
        count(Event::Released, newly);
    }

    pub(super) fn release(&mut self, index: usize, range: Range<usize>) {
        let page_size = self.page_size;
        let request = &mut self.requests[index];
        let released = request.sequence.release(range.clone());
        let mut newly = 0;
        for (page, positions) in request.released.chunks_exact_mut(page_size).enumerate() {
            let (begin, end) = (page * page_size, (page + 1) * page_size);
            let within = range.start <= begin && end <= range.end.min(request.written);
            if !request.swapped && within && !positions[0] {
                newly += 1;
                request.least_len = request.least_len.max(end);
                positions.fill(true);
            }
        }
        assert_eq!(released, newly, "whole pages, once");
        count(Event::ReleasedInPart, newly);
    }

    pub(super) fn compact(&mut self, index: usize) {
        let request = &mut self.requests[index];
        let gone = request.released.iter().filter(|&&released| released).count();
        let first = request.first_gone();
        assert_eq!(request.sequence.compact(), gone);
        if gone > 0 {
            let mut kept = request.released.iter().map(|&released| !released);
            request.tokens.retain(|_| kept.next() == Some(true));
            let mut kept = request.released.iter().map(|&released| !released);
            request.keys.retain(|_| kept.next() == Some(true));
            request.released.retain(|&released| !released);
            request.written -= gone;
            (request.moved, request.least_len) = (first, request.least_len - gone);
            let old = std::mem::take(&mut request.lock);
            self.naive.unlock(&old);
            count(Event::Compacted, 1);
        }
    }
}
