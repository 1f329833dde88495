//! The parameters of sampling. CUDA has these structs from here.

use attn_core::sampling::BLOCK_TOKENS;
use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

/// Threads of a CTA that samples where rows are few; where they are many, in a cluster; and without one.
pub const SAMPLE_THREADS: [u32; 3] = [1024, 256, 512];
/// CTAs of a cluster that samples a row, where GPUs have clusters.
pub const SAMPLE_CLUSTER: u32 = 8;

/// Bytes of shared memory before arrays: `sizeof(SampleShared)`.
pub const SAMPLE_SHARED_BYTES: u32 =
    (3 * 4 * 1024 + 2 * 8 * 32 + 4 * 256 + 64 + 12 + 8 + 24 + 8 * 64u32).next_multiple_of(16);

/// Bytes of shared memory of a row of `vocab` tokens, with candidates.
#[must_use]
pub const fn sample_smem(vocab: u32, capacity: u32) -> u32 {
    SAMPLE_SHARED_BYTES + 12 * vocab.div_ceil(BLOCK_TOKENS as u32) + 8 * capacity
}

/// The parameters of sampling. Arrays of rows may be null: then all rows have the value beside them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
#[allow(missing_docs)] // of fields whose names say all
pub struct SampleParams {
    /// Logits or probabilities: (sources, vocab).
    #[cuda("const void*")]
    pub source: u64,
    /// Stride of its rows, in elements.
    pub source_row: i64,
    /// `[rows]`: their rows of the source; null: their own.
    #[cuda("const int*")]
    pub indices: u64,
    #[cuda("const float*")]
    pub temperature: u64,
    #[cuda("const int*")]
    pub top_k: u64,
    #[cuda("const float*")]
    pub top_p: u64,
    #[cuda("const float*")]
    pub min_p: u64,
    #[cuda("const unsigned long long*")]
    pub seeds: u64,
    #[cuda("const float*")]
    pub repetition: u64,
    #[cuda("const float*")]
    pub presence: u64,
    #[cuda("const float*")]
    pub frequency: u64,
    /// (rows, words of a row): bits of allowed tokens; null: all.
    #[cuda("const unsigned*")]
    pub token_mask: u64,
    /// (rows, vocab): how often a token was drawn, plus 2^31 in the prompt; may be null.
    #[cuda("unsigned*")]
    pub counts: u64,
    /// `[rows]`; null: nothing is drawn.
    #[cuda("long long*")]
    pub positions: u64,
    /// `[rows]`.
    #[cuda("int*")]
    pub ids: u64,
    /// `[rows]`; may be null.
    #[cuda("float*")]
    pub log_probs: u64,
    /// (rows, vocab), what the filters keep; may be null.
    #[cuda("float*")]
    pub kept: u64,
    /// Stride of its rows.
    pub kept_row: i64,
    /// (rows, top_count); may be null.
    #[cuda("int*")]
    pub top_ids: u64,
    #[cuda("float*")]
    pub top_log_probs: u64,
    pub all_seeds: u64,
    pub all_temperature: f32,
    pub all_top_k: i32,
    pub all_top_p: f32,
    pub all_min_p: f32,
    pub all_repetition: f32,
    pub all_presence: f32,
    pub all_frequency: f32,
    pub top_count: i32,
    pub sources: i32,
    pub vocab: i32,
    /// Candidates that the list of a CTA takes.
    pub capacity: i32,
    /// log2 of how many groups of 128 tokens stand for one in a sample of the row.
    pub sample_shift: i32,
    /// Whether penalties change logits by `counts`.
    pub penalties: i32,
    /// Top-k and top-p both look at the whole distribution.
    pub joint: i32,
    /// Log-probabilities are of what the filters keep.
    pub of_kept: i32,
    /// `kept` holds logits, -inf where the filters drop a token.
    pub keeps_logits: i32,
    /// Whether rows of the source begin at multiples of four elements.
    pub wide: i32,
    /// The same of `counts`.
    pub counts_wide: i32,
    /// The same of `kept`.
    pub kept_wide: i32,
    pub pad: i32,
}
