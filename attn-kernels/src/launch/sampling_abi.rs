//! The ABI of the sampling kernel (`attn-kernels/cuda/sampling`): the parameters of a launch, of which the derive makes
//! the CUDA struct, and its shared memory.

use attn_core::sampling::{BLOCK_TOKENS, CANDIDATES};
use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

/// Threads of a CTA that samples: where rows are few, where they are many, and where they are read again.
pub const SAMPLE_THREADS: [u32; 3] = [512, 256, 512];
/// CTAs of a cluster that samples a row, where GPUs have clusters.
pub const SAMPLE_CLUSTER: u32 = 8;

/// Bytes of shared memory before the blocks of a CTA, in a cluster of `ctas`: `sizeof(SampleShared)`, in the order of
/// its fields (`sampling/shared.cuh`, which asserts it).
#[must_use]
pub const fn sample_shared_bytes(ctas: u32) -> u32 {
    const BINS: u32 = 1024;
    const MAX_WARPS: u32 = 32;
    const CHECKED: u32 = 4;
    let low_and_high = 2 * 4 * BINS;
    let merged = 8 * (BINS / ctas);
    let maxima = 4 * 256;
    let told = 2 * 8 * CHECKED * ctas;
    let of_warp_and_segment = 8 * MAX_WARPS * (2 * CHECKED + 1);
    let crossing = 8 * 3;
    let candidates_and_before = 2 * 8 * CANDIDATES as u32;
    let bound_count_pad_and_found = 4 * 4 + 8;
    let bytes = low_and_high + merged + maxima + told + of_warp_and_segment + crossing + candidates_and_before;
    (bytes + bound_count_pad_and_found).next_multiple_of(16)
}

/// Bytes of shared memory of a CTA that has a slice of a row: with its tokens, or without.
pub const fn sample_smem(ctas: u32, slice: u32, resident: bool) -> u32 {
    let tokens = if resident { 4 * slice } else { 0 };
    sample_shared_bytes(ctas) + (12 * (slice / BLOCK_TOKENS as u32)).next_multiple_of(16) + tokens
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
    /// Tokens of a CTA, a multiple of [`BLOCK_TOKENS`].
    pub slice: i32,
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
}
