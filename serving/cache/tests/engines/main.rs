//! What serving engines expect of a page manager, as black boxes: the behaviours that vLLM's tests of prefix caching,
//! SGLang's tests of its radix cache, and kvbm-logical's tests of its manager ask for, in terms of this crate.

mod kvbm_logical;
mod sglang;
mod vllm;

use attn_cache::{CacheError, Namespace, Pages, Prefix, Sequence, Token};

/// An engine of a page manager: requests come, run, and end.
pub(crate) struct Engine {
    pub(crate) pages: Pages,
    pub(crate) prefix: Prefix,
}

/// A request whose prompt is computed and cached.
pub(crate) struct Request {
    pub(crate) sequence: Sequence,
    /// Tokens that were found in the cache.
    pub(crate) hit: usize,
}

impl Engine {
    pub(crate) fn new(count: usize, page_size: usize) -> Self {
        let pages = Pages::new(count, page_size).expect("a pool");
        Engine { prefix: Prefix::new(&pages), pages }
    }

    /// Runs a prompt, and caches its whole pages.
    pub(crate) fn admit(&self, namespace: &Namespace, prompt: &[Token]) -> Result<Request, CacheError> {
        let hit = self.prefix.lookup(namespace, prompt);
        let tokens = hit.tokens;
        let mut sequence = Sequence::with_prefix(&self.pages, hit);
        self.prefix.reserve(sequence.pages_needed(prompt.len() - tokens))?;
        sequence.append(prompt.len() - tokens)?;
        sequence.commit();
        sequence.cache(&self.prefix, namespace, prompt)?;
        self.prefix.check()?;
        Ok(Request { sequence, hit: tokens })
    }

    pub(crate) fn run(&self, prompt: &[Token]) -> Request {
        self.admit(&Namespace::default(), prompt).expect("pages")
    }

    pub(crate) fn hit(&self, prompt: &[Token]) -> usize {
        self.prefix.lookup(&Namespace::default(), prompt).tokens
    }
}

/// `pages` pages of 16 equal tokens each, from `first` on, and a tail.
pub(crate) fn text(first: Token, pages: usize, tail: &[Token]) -> Vec<Token> {
    let whole = (0..pages).flat_map(|page| [first + page as Token; 16]);
    whole.chain(tail.iter().copied()).collect()
}
