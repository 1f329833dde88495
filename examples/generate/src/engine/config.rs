//! What an operator chooses.

/// How an engine schedules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineConfig {
    /// Tokens of a prompt that a step computes, at most. More make prompts faster and tokens of others later. It is
    /// lowered to what fits beside one token of every other sequence.
    pub chunk_tokens: usize,
    /// Whether chunks of a prompt end at multiples of `chunk_tokens`, counted from its first token. Then what a chunk
    /// holds depends on the prompt alone, and not on the load: a model with batch-invariant kernels gives the same bits
    /// in any company, and with a warm prefix cache.
    pub batch_invariant: bool,
    /// Whether prefixes of earlier requests are reused.
    pub reuse_prefixes: bool,
    /// Whether sequences that share pages become levels of a cascade, where that is cheaper. Not in batch-invariant
    /// mode, nor in steps with endless texts.
    pub cascade: bool,
    /// Pages that stay free when a request is admitted, for the tokens of those that run: a fraction of the pool.
    pub watermark: f32,
    /// Requests that wait, at most, before [`Refused::Busy`](super::Refused::Busy).
    pub max_waiting: usize,
    /// Events that a client of an [`EngineHandle`](super::EngineHandle) may leave unread. A request with more is
    /// cancelled, so that a client that reads nothing does not fill the memory.
    pub max_unread: usize,
}

impl Default for EngineConfig {
    /// Chunks of 512 tokens, not batch-invariant, with prefix reuse and cascades, 1 % of the pool as watermark, 1,024
    /// waiting requests, 8,192 unread events.
    fn default() -> Self {
        EngineConfig {
            chunk_tokens: 512,
            batch_invariant: false,
            reuse_prefixes: true,
            cascade: true,
            watermark: 0.01,
            max_waiting: 1024,
            max_unread: 8192,
        }
    }
}
