//! The parameters of indexers. CUDA has these structs from here.
#![allow(missing_docs)] // of fields whose names say all

use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

use super::RowsParams;

/// Threads of a CTA that chooses from a row of scores.
pub const SELECT_THREADS: u32 = 512;
/// Keys of a warp, where keys have scores of their own.
pub const SCORE_UNIT: u32 = 64;

/// The parameters of scores. Strides are in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct IndexScoresParams {
    /// The page table, and the strides of a pool or of packed keys in `part[0].pool`. `indptr`: prefix sums of packed
    /// keys, null for keys in pages. `positions`: the numbers of keys in pages. `status`: keys without a score.
    pub keys: RowsParams,
    /// (tokens, heads, dim).
    #[cuda("const void*")]
    pub q: u64,
    pub q_token: i64,
    pub q_head: i64,
    /// (tokens, heads).
    #[cuda("const float*")]
    pub weights: u64,
    pub weights_token: i64,
    /// `[requests + 1]`.
    #[cuda("const int*")]
    pub qo_indptr: u64,
    /// `[tokens]`: keys that a query sees; null: all, or by causality.
    #[cuda("const int*")]
    pub visible: u64,
    /// (tokens, keys), or (tokens, heads, blocks).
    #[cuda("float*")]
    pub scores: u64,
    pub scores_token: i64,
    pub scores_head: i64,
    /// `[tokens]`.
    #[cuda("int*")]
    pub counts: u64,
    pub causal: i32,
    /// Keys or blocks that a row holds.
    pub columns: i32,
    /// Keys of a block, or of a warp's share.
    pub unit: i32,
    /// CTAs of a token.
    pub tiles: i32,
    /// Whether rows of queries begin at multiples of 16 bytes.
    pub q_wide: i32,
    /// The same of keys.
    pub keys_wide: i32,
}

/// The parameters of choices.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct SelectParams {
    /// (tokens, heads, columns).
    #[cuda("const float*")]
    pub scores: u64,
    pub scores_token: i64,
    pub scores_head: i64,
    /// `[tokens]`.
    #[cuda("const int*")]
    pub counts: u64,
    /// (tokens, heads, capacity).
    #[cuda("int*")]
    pub lists: u64,
    /// (tokens, heads).
    #[cuda("int*")]
    pub lens: u64,
    pub heads: i32,
    pub columns: i32,
    pub capacity: i32,
    /// Always chosen, at the start of a row.
    pub first: i32,
    /// The same at its end.
    pub last: i32,
    /// Whether rows of scores begin at multiples of 16 bytes.
    pub wide: i32,
}
