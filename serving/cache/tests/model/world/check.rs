//! What must hold after every operation.

use attn_cache::{PageId, RELEASED};

use super::{Request, World, memory::key};

impl World {
    pub(crate) fn check(&self) {
        self.prefix.check().expect("the tree is sound");
        self.host.check().expect("the pool is sound");
        let mut held = self.held();
        let entries = self.naive.entries.values();
        let evictable = entries.clone().filter(|entry| entry.locks == 0 && !held.contains_key(&entry.page)).count();
        entries.clone().for_each(|entry| *held.entry(entry.page).or_insert(0) += 1);
        for page in 0..self.pages.count() as PageId {
            assert_eq!(self.pages.refs(page), held.get(&page).copied().unwrap_or(0), "references to page {page}");
        }
        let stats = self.pages.stats();
        assert_eq!((stats.used, stats.free + stats.used, stats.evictable), (held.len(), stats.total, evictable));
        let of_tree = self.prefix.stats();
        let protected = entries.clone().filter(|entry| entry.locks > 0).count() * self.page_size;
        assert_eq!((of_tree.tokens, of_tree.protected), (entries.count() * self.page_size, protected));
        assert_eq!(of_tree.evictable + of_tree.protected, of_tree.tokens);
        self.requests.iter().for_each(|request| self.check_request(request));
        for (path, entry) in &self.naive.entries {
            for slot in 0..self.page_size {
                let end = path.1.len() - self.page_size + slot + 1;
                let at = entry.page as usize * self.page_size + slot;
                assert_eq!(self.device_memory[at], key(path.0, &path.1[..end]), "cached page {}", entry.page);
            }
        }
    }

    /// Every written key is where the table says, or where the pending copy of its page reads.
    fn check_request(&self, request: &Request) {
        assert_eq!(request.sequence.len(), request.tokens.len());
        assert_eq!(request.keys.len(), request.tokens.len());
        assert_eq!(request.sequence.new_tokens(), request.tokens.len() - request.written);
        for position in 0..request.written {
            let page = request.sequence.page_ids()[position / self.page_size];
            assert_eq!(page == RELEASED, request.released[position]);
            if page == RELEASED {
                continue;
            }
            let source = |page: PageId| self.pending.iter().find(|copy| copy[1] == page).map_or(page, |copy| copy[0]);
            let (memory, page) =
                if request.swapped { (&self.host_memory, page) } else { (&self.device_memory, source(page)) };
            let found = memory[page as usize * self.page_size + position % self.page_size];
            assert_eq!(found, request.keys[position], "position {position}");
        }
    }
}
