//! The state of each page: its references, and whether the prefix tree holds it.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// The prefix tree holds the page.
const IN_TREE: u32 = 1 << 31;
/// The prefix tree holds the page in a node that no lock protects.
const UNPROTECTED: u32 = 1 << 30;
/// The page is the target of a copy that no step has.
const COPY_TARGET: u32 = 1 << 29;
const REFS: u32 = COPY_TARGET - 1;

/// One word a page, and the number of pages that eviction would make free: those that only the tree refers to, in nodes
/// without locks. The number follows from the transitions of the words, so it is exact without a walk over the tree.
#[derive(Debug)]
pub(crate) struct RefCounts {
    words: Box<[AtomicU32]>,
    evictable: AtomicI64,
}

impl RefCounts {
    pub(crate) fn new(pages: usize) -> Self {
        RefCounts { words: (0..pages).map(|_| AtomicU32::new(0)).collect(), evictable: AtomicI64::new(0) }
    }

    pub(crate) fn pages(&self) -> usize {
        self.words.len()
    }

    /// Gives a free page its first reference.
    pub(crate) fn first(&self, page: usize) {
        let before = self.words[page].swap(1, Ordering::Relaxed);
        debug_assert_eq!(before, 0, "page {page} was free");
    }

    pub(crate) fn add(&self, page: usize) {
        let before = self.words[page].fetch_add(1, Ordering::Relaxed);
        if before & !COPY_TARGET == IN_TREE | UNPROTECTED | 1 {
            self.evictable.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Adds a reference unless the page has none, and says whether it did: another thread is freeing the page then.
    pub(crate) fn add_unless_free(&self, page: usize) -> bool {
        let more = |before: u32| (before & REFS > 0).then_some(before + 1);
        let before = self.words[page].fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        if before.is_ok_and(|before| before & !COPY_TARGET == IN_TREE | UNPROTECTED | 1) {
            self.evictable.fetch_sub(1, Ordering::Relaxed);
        }
        before.is_ok()
    }

    /// Takes a reference away, and says whether it was the last one.
    pub(crate) fn remove(&self, page: usize) -> bool {
        let before = self.words[page].fetch_sub(1, Ordering::AcqRel);
        if before & !COPY_TARGET == IN_TREE | UNPROTECTED | 2 {
            self.evictable.fetch_add(1, Ordering::Relaxed);
        }
        before & REFS == 1
    }

    pub(crate) fn refs(&self, page: usize) -> usize {
        (self.words[page].load(Ordering::Acquire) & REFS) as usize
    }

    /// Marks whether the page is the target of a copy that no step has.
    pub(crate) fn set_copy_target(&self, page: usize, is: bool) {
        match is {
            true => self.words[page].fetch_or(COPY_TARGET, Ordering::AcqRel),
            false => self.words[page].fetch_and(!COPY_TARGET, Ordering::AcqRel),
        };
    }

    pub(crate) fn is_copy_target(&self, page: usize) -> bool {
        self.words[page].load(Ordering::Acquire) & COPY_TARGET != 0
    }

    /// Marks a page as held by the tree, in a node that a lock protects. False if the tree holds it already.
    pub(crate) fn enter_tree(&self, page: usize) -> bool {
        self.words[page].fetch_or(IN_TREE, Ordering::Relaxed) & IN_TREE == 0
    }

    /// Marks a page as not held by the tree.
    pub(crate) fn leave_tree(&self, page: usize) {
        self.protect(page);
        self.words[page].fetch_and(!IN_TREE, Ordering::Relaxed);
    }

    /// Marks a page of the tree as protected by a lock.
    pub(crate) fn protect(&self, page: usize) {
        let before = self.words[page].fetch_and(!UNPROTECTED, Ordering::Relaxed);
        if before & !COPY_TARGET == IN_TREE | UNPROTECTED | 1 {
            self.evictable.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Marks a page of the tree as not protected.
    pub(crate) fn unprotect(&self, page: usize) {
        let before = self.words[page].fetch_or(UNPROTECTED, Ordering::Relaxed);
        if before & !COPY_TARGET == IN_TREE | 1 {
            self.evictable.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_in_tree(&self, page: usize) -> bool {
        self.words[page].load(Ordering::Relaxed) & IN_TREE != 0
    }

    pub(crate) fn is_unprotected(&self, page: usize) -> bool {
        self.words[page].load(Ordering::Relaxed) & UNPROTECTED != 0
    }

    /// Pages that eviction would make free.
    pub(crate) fn evictable(&self) -> usize {
        // below 0 only for a moment, between two operations of another thread
        usize::try_from(self.evictable.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// The same, counted page by page.
    pub(crate) fn count_evictable(&self) -> usize {
        let alone = IN_TREE | UNPROTECTED | 1;
        self.words.iter().filter(|word| word.load(Ordering::Relaxed) & !COPY_TARGET == alone).count()
    }
}
