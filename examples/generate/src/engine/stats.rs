//! Counts of an engine.

use attn_cache::PageStats;

/// What an engine does now, and what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Sequences that run; each choice of a request is one.
    pub running: usize,
    /// Requests and preempted choices that wait.
    pub waiting: usize,
    /// Pages of the pool.
    pub pages: PageStats,
    /// Steps so far.
    pub steps: u64,
    /// Tokens that were computed: prompts, texts, and guesses.
    pub computed_tokens: u64,
    /// Tokens that were drawn and kept.
    pub generated_tokens: u64,
    /// Tokens of prompts whose keys were found in the prefix cache.
    pub hit_tokens: u64,
    /// Tokens of all prompts that were looked up, those of preempted texts included.
    pub looked_up_tokens: u64,
    /// Sequences that gave their pages back, to be computed again.
    pub preemptions: u64,
    /// Tokens that were guessed by prompt lookup.
    pub guessed_tokens: u64,
    /// Guesses that were right.
    pub accepted_tokens: u64,
    /// Requests that ended, in any way.
    pub ended: u64,
    /// Requests that failed.
    pub failed: u64,
}
