//! The prefix tree without a tree: each cached page stands alone, under all tokens up to its end.

use std::collections::BTreeMap;

use attn_cache::PageId;

/// A namespace, and all tokens up to the end of a page.
pub(crate) type Path = (usize, Vec<u32>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) page: PageId,
    last_used: u64,
    pub(crate) locks: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Naive {
    page_size: usize,
    pub(crate) entries: BTreeMap<Path, Entry>,
    tick: u64,
}

impl Naive {
    pub(crate) fn new(page_size: usize) -> Self {
        Naive { page_size, entries: BTreeMap::new(), tick: 0 }
    }

    /// The longest cached prefix that ends before the last token.
    pub(crate) fn lookup(&mut self, namespace: usize, prompt: &[u32]) -> Path {
        let whole = (prompt.len() - 1) / self.page_size * self.page_size;
        let found = self.cached(namespace, &prompt[..whole]);
        self.lock(&found);
        found
    }

    fn cached(&self, namespace: usize, tokens: &[u32]) -> Path {
        let ends = (1..=tokens.len() / self.page_size).map(|pages| pages * self.page_size);
        let found = ends.take_while(|&end| self.entries.contains_key(&(namespace, tokens[..end].to_vec()))).last();
        (namespace, tokens[..found.unwrap_or(0)].to_vec())
    }

    /// Caches whole pages, and returns the path and the tokens that were cached already.
    pub(crate) fn insert(&mut self, namespace: usize, tokens: &[u32], pages: &[PageId]) -> (Path, usize) {
        let whole = (namespace, tokens[..tokens.len() / self.page_size * self.page_size].to_vec());
        let reused = self.cached(namespace, &whole.1).1.len();
        if reused < whole.1.len() {
            self.tick += 1;
        }
        let ends = (1..=whole.1.len() / self.page_size).map(|pages| pages * self.page_size);
        for (end, &page) in ends.zip(pages).filter(|&(end, _)| end > reused) {
            let path = (namespace, whole.1[..end].to_vec());
            self.entries.insert(path, Entry { page, last_used: self.tick, locks: 0 });
        }
        self.lock(&whole);
        (whole, reused)
    }

    pub(crate) fn lock(&mut self, path: &Path) {
        self.each(path, |entry| entry.locks += 1);
    }

    pub(crate) fn unlock(&mut self, path: &Path) {
        self.each(path, |entry| entry.locks -= 1);
    }

    fn each(&mut self, path: &Path, change: impl Fn(&mut Entry)) {
        self.tick += u64::from(!path.1.is_empty());
        for end in (1..=path.1.len() / self.page_size).map(|pages| pages * self.page_size) {
            let entry = self.entries.get_mut(&(path.0, path.1[..end].to_vec())).expect("locked pages stay");
            entry.last_used = self.tick;
            change(entry);
        }
    }

    pub(crate) fn page(&self, namespace: usize, tokens: &[u32]) -> PageId {
        self.entries[&(namespace, tokens.to_vec())].page
    }

    /// Evicts page by page: among those that nothing follows and nothing locks, what was not used for longest. Returns
    /// the pages that are free now, and all that are gone.
    pub(crate) fn evict(&mut self, want: usize, is_held: impl Fn(PageId) -> bool) -> (usize, usize) {
        let (mut freed, mut gone) = (0, 0);
        while freed < want {
            let follows = |path: &Path| {
                let next = path.1.len() + self.page_size;
                self.entries
                    .keys()
                    .any(|other| other.0 == path.0 && other.1.len() == next && other.1.starts_with(&path.1))
            };
            let leaves = self.entries.iter().filter(|(path, entry)| entry.locks == 0 && !follows(path));
            let Some((path, page)) =
                leaves.min_by_key(|(_, entry)| entry.last_used).map(|(path, entry)| (path.clone(), entry.page))
            else {
                break;
            };
            self.entries.remove(&path);
            freed += usize::from(!is_held(page));
            gone += 1;
        }
        (freed, gone)
    }

    /// Evicts what nothing locks of a namespace. Returns as [`Naive::evict`].
    pub(crate) fn clear_namespace(&mut self, namespace: usize, is_held: impl Fn(PageId) -> bool) -> (usize, usize) {
        let goes = |path: &Path, entry: &Entry| path.0 == namespace && entry.locks == 0;
        let gone: Vec<PageId> =
            self.entries.iter().filter(|(path, entry)| goes(path, entry)).map(|(_, entry)| entry.page).collect();
        self.entries.retain(|path, entry| !goes(path, entry));
        (gone.iter().filter(|&&page| !is_held(page)).count(), gone.len())
    }
}
