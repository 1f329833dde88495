//! Sequences that are swapped to the host and back.

use attn_cache::CacheError;

use super::{World, memory::copy};
use crate::events::{Event, count};

impl World {
    pub(super) fn swap_out(&mut self, index: usize) {
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
                self.drop_copies();
            }
        }
    }

    pub(super) fn swap_in(&mut self, index: usize) {
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
}
