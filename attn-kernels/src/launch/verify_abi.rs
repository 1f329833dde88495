//! The parameters of verification. CUDA has these structs from here.
#![allow(missing_docs)] // of fields whose names say all

use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

/// Threads of a CTA that verifies.
pub const VERIFY_THREADS: u32 = 256;
/// CTAs of a cluster that verifies a request, where GPUs have clusters.
pub const VERIFY_CLUSTER: u32 = 8;
/// Arrays of integers that a tree has in shared memory.
pub const TREE_ARRAYS: u32 = 5;

/// Bytes of shared memory of a CTA that verifies chains: `sizeof(ChainShared)`.
pub const CHAIN_SHARED_BYTES: u32 = DRAW_SHARED_BYTES + 8;

/// Bytes of shared memory of a CTA that verifies trees of this many nodes. Without nodes: `sizeof(TreeShared)`.
pub const fn tree_shared_bytes(nodes: u32) -> u32 {
    DRAW_SHARED_BYTES + 16 + 4 * TREE_ARRAYS * nodes
}

/// Two sums of slices, and three of each warp.
const DRAW_SHARED_BYTES: u32 = 8 * (2 + 3 * 32);

/// The parameters of a verification of chains.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct VerifyChainParams {
    /// (requests, drafts, vocab).
    #[cuda("const float*")]
    pub draft_probs: u64,
    /// Strides, in elements.
    pub draft_request: i64,
    pub draft_row: i64,
    /// (requests, drafts + 1, vocab).
    #[cuda("const float*")]
    pub target_probs: u64,
    pub target_request: i64,
    pub target_row: i64,
    /// (requests, drafts).
    #[cuda("const int*")]
    pub draft_ids: u64,
    /// `[requests]`; null: all have the seed below.
    #[cuda("const unsigned long long*")]
    pub seeds: u64,
    pub all_seeds: u64,
    /// (requests, drafts + 1).
    #[cuda("int*")]
    pub ids: u64,
    /// `[requests]`.
    #[cuda("int*")]
    pub accepted: u64,
    /// `[requests]`.
    #[cuda("int*")]
    pub emitted: u64,
    /// `[requests]`.
    #[cuda("long long*")]
    pub positions: u64,
    pub drafts: i32,
    pub vocab: i32,
    /// Tokens of a CTA, a multiple of 128.
    pub slice: i32,
    /// Whether all rows of probabilities begin at multiples of 16 bytes.
    pub wide: i32,
}

/// The parameters of a verification of trees.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct VerifyTreeParams {
    /// (requests, nodes, vocab).
    #[cuda("const float*")]
    pub target_probs: u64,
    /// Strides, in elements.
    pub target_request: i64,
    pub target_row: i64,
    /// (requests, nodes), and so are the next three.
    #[cuda("const int*")]
    pub draft_ids: u64,
    #[cuda("const int*")]
    pub retrieve_index: u64,
    #[cuda("const int*")]
    pub retrieve_next_token: u64,
    #[cuda("const int*")]
    pub retrieve_next_sibling: u64,
    /// `[requests]`; null: all have the seed below.
    #[cuda("const unsigned long long*")]
    pub seeds: u64,
    pub all_seeds: u64,
    /// `[requests * nodes]`.
    #[cuda("int*")]
    pub ids: u64,
    /// (requests, nodes).
    #[cuda("int*")]
    pub accept_index: u64,
    /// `[requests]`.
    #[cuda("int*")]
    pub accepted: u64,
    /// `[requests]`.
    #[cuda("long long*")]
    pub positions: u64,
    pub threshold_single: f32,
    pub threshold_acc: f32,
    pub requests: i32,
    pub nodes: i32,
    pub vocab: i32,
    /// Tokens of a CTA, a multiple of 128.
    pub slice: i32,
    /// Whether all rows of probabilities begin at multiples of 16 bytes.
    pub wide: i32,
    pub pad: i32,
}
