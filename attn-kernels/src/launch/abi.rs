//! The parameters of kernels. CUDA has these structs from here. Work items and merges are in [`attn_core::plan`].
#![allow(missing_docs)] // of fields whose names say all

use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

use super::FastDiv;

/// A strided tensor of shape (token or slot, head, dim) on the device, with contiguous dim, or a pool of pages that
/// each hold such a tensor. Strides count elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct Strided {
    #[cuda("void*")]
    pub data: u64,
    /// Ragged: from token to token; paged: from slot to slot of a page.
    pub token: i64,
    pub head: i64,
    /// Paged only.
    pub page: i64,
}

/// The first parameter of every attention kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct KernelParams {
    /// Queries.
    pub q: Strided,
    /// The paged cache or the ragged tensor, before preprocessing; `v` too.
    pub k: Strided,
    pub v: Strided,
    /// Output.
    pub o: Strided,
    /// Ragged: K after key_transform (prefill with K_PREPROCESSED only).
    pub k_pre: Strided,
    /// Ragged: V after value_transform (prefill with V_PREPROCESSED only).
    pub v_pre: Strided,
    /// Log-sum-exps in natural logarithms, (qo token, qo head); null when not wanted.
    #[cuda("float*")]
    pub lse: u64,
    /// Strides of lse.
    pub lse_token: i64,
    pub lse_head: i64,
    /// `[kv_heads]`: scale per KV head of stored K, beside k_scale; may be null.
    #[cuda("const float*")]
    pub k_scales: u64,
    /// `[kv_heads]`, of stored V; may be null.
    #[cuda("const float*")]
    pub v_scales: u64,
    /// `[batch + 1]`.
    #[cuda("const int*")]
    pub qo_indptr: u64,
    /// `[batch + 1]` in tokens, also for paged KV: sums of kv_len.
    #[cuda("const int*")]
    pub kv_indptr: u64,
    /// `[batch + 1]`, paged only.
    #[cuda("const int*")]
    pub page_indptr: u64,
    /// `[page_indptr[batch]]`, paged only.
    #[cuda("const int*")]
    pub page_indices: u64,
    /// `[gridDim.x of the main kernel]`; in a mixed launch those of all decode workers.
    #[cuda("const WorkItem*")]
    pub items: u64,
    /// `[gridDim.x of the merge kernel]`.
    #[cuda("const MergeItem*")]
    pub merges: u64,
    /// `[workers]` of decode.
    #[cuda("const WorkerStart*")]
    pub workers: u64,
    // one line of the header, which is part of the keys of kernels
    #[doc = " `[partials of tiles][kv_heads]`: split-KV semaphores, 0 between launches (decode, except mixed \
             launches). Of sm_90"]
    /// prefill the two counters of the tile scheduler.
    #[cuda("unsigned*")]
    pub split_semaphores: u64,
    /// `[partial rows][kv_heads][HEAD_DIM_VO]`: unnormalised O, relative to row_max.
    #[cuda("float*")]
    pub partial_o: u64,
    /// `[partial rows][kv_heads]`: (row_max, row_sum).
    #[cuda("float2*")]
    pub partial_md: u64,
    /// Query heads per KV head.
    pub group: FastDiv,
    pub page_size: FastDiv,
    /// Keys of a block of the variant's KV lists; the divisor is 0 without lists.
    pub list_block: FastDiv,
    pub batch: i32,
    pub kv_heads: i32,
    /// Whether decode loads K and V with the L2 policy `evict_first`: one CTA alone reads them, and what others read
    /// or have written stays in L2.
    pub read_once: i32,
    pub sm_scale: f32,
    /// The scale of all of stored K; 1: none.
    pub k_scale: f32,
    pub v_scale: f32,
    /// Whether output rows omit sink and output transform: partials that merge with others.
    pub partial_output: i32,
}

/// The first parameter of the kernels of a mixed launch. Its `items` are those of the decode part.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct MixedParams {
    #[cuda(base)]
    pub base: KernelParams,
    /// `[prefill_items]`.
    #[cuda("const WorkItem*")]
    pub prefill: u64,
    /// Rows of partials, in the order of keys.
    #[cuda("const int*")]
    pub merge_parts: u64,
    /// `[qo tokens]`, where requests share keys.
    #[cuda("const int*")]
    pub request_of_query: u64,
    /// [segments + 1]: prefix sums of the segments' keys, in the order of `pass`.
    #[cuda("const int*")]
    pub segment_ends: u64,
    #[cuda("const KvSegment*")]
    pub segments: u64,
    /// The decode workers times `kv_heads`.
    pub decode_ctas: i32,
    pub prefill_items: i32,
    pub segment_count: i32,
    /// CTAs that the device holds at a time.
    pub wave: i32,
    /// Decode workers of each wave, while there are any.
    pub wave_decodes: i32,
    pub pad: i32,
}

/// The side data of rows of KV formats. Their strides, and those of `KernelParams::k` and `v`, count bytes then.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct KvSides {
    pub k: Strided,
    pub v: Strided,
}

/// The first parameter of kernels over rows of KV formats.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct PackedParams {
    #[cuda(base)]
    pub base: KernelParams,
    pub sides: KvSides,
}

/// The first parameter of the kernels of a mixed launch over rows of KV formats.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct PackedMixedParams {
    #[cuda(base)]
    pub base: MixedParams,
    pub sides: KvSides,
}

/// A TMA tensor map (`CUtensorMap`), which the driver encodes.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct TensorMap {
    /// Opaque.
    pub words: [u64; 16],
}

/// The third parameter of sm90 prefill.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct Sm90Params {
    /// Preprocessed K where there is, else the cache or the ragged tensor; `v` too.
    pub k: TensorMap,
    pub v: TensorMap,
    /// (element, head, token); a box is a Q tile: a KV head's query heads of some tokens; if use_tma_q.
    pub q: TensorMap,
    /// As q, with boxes of 16 rows; if use_tma_o.
    pub o: TensorMap,
    /// Keys of a box of K and V ([`super::box_rows`]); 0: rows are loaded by cp.async.
    pub box_rows: i32,
    /// The length of `KernelParams::items`, in a mixed launch of `MixedParams::prefill`.
    pub items: i32,
    /// KV heads whose items alternate ([`super::HeadOrder`]).
    pub heads: i32,
    /// Whether a Q tile (PackGQA) is a box.
    pub use_tma_q: i32,
    /// Whether 16 rows of O (PackGQA) are a box.
    pub use_tma_o: i32,
    /// With SKIP_SOFTMAX: how far below row_max a KV tile is left out, in the exponent of exp2.
    pub skip_threshold: f32,
    pub pad: [i32; 10],
}
