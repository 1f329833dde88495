//! The parameters of ops. CUDA has these structs from here.
#![allow(missing_docs)] // of fields whose names say all

use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

use super::{FastDiv, KvSides, Strided};

/// Threads of a CTA of every op: `OP_THREADS` of cuda/ops/index.cuh.
pub const OP_THREADS: u32 = 256;
/// Pairs of pages that one launch takes as a kernel parameter: `COPY_INLINE` of cuda/ops/copy.cuh.
pub const COPY_INLINE: usize = 448;

/// A row is a head of a token. `chunks` neighbouring threads process a chunk each; leftover threads of a CTA are idle.
/// If a row has more chunks than a CTA has threads, threads loop over them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct RowTiling {
    pub heads: FastDiv,
    /// Per row.
    pub chunks: FastDiv,
    /// Per CTA at a time.
    pub rows: i32,
    pub pad: i32,
}

/// Outputs and log-sum-exps of states. Strides are in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct MergeStates {
    #[cuda("void*")]
    pub o: u64,
    #[cuda("float*")]
    pub lse: u64,
    pub o_token: i64,
    pub o_state: i64,
    pub o_head: i64,
    pub lse_token: i64,
    pub lse_state: i64,
    pub lse_head: i64,
}

/// The parameters of merges.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct MergeParams {
    /// `states` input states.
    pub many: MergeStates,
    /// One more input state if `others` is 1.
    pub other: MergeStates,
    /// One state; lse may be null, and so may o.
    pub out: MergeStates,
    /// `[tokens]`, null: all ones; a token with 0 is not written.
    #[cuda("const unsigned char*")]
    pub mask: u64,
    /// Tokens times heads.
    pub rows: i64,
    pub share: RowTiling,
    /// The states of `many`.
    pub states: i32,
    /// 0 or 1.
    pub others: i32,
    /// Whether outputs are just added, without lse.
    pub sums: i32,
    pub pad: i32,
}

/// The parameters of the kernel that scales log-sum-exps.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct ScaleLseParams {
    #[cuda("float*")]
    pub lse: u64,
    /// Strides.
    pub token: i64,
    pub head: i64,
    /// Tokens times heads.
    pub count: i64,
    pub heads: FastDiv,
    pub factor: f32,
}

/// The tensors of keys or of values.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct RowsPart {
    /// (tokens, heads, dim).
    pub packed: Strided,
    /// (pages, slots, heads, dim).
    pub pool: Strided,
    /// `[heads]`; null: none.
    #[cuda("const float*")]
    pub scales: u64,
    pub share: RowTiling,
    /// 0: nothing is read or written.
    pub dim: i32,
    pub scale: f32,
    /// Whether bits are copied without conversion.
    pub raw: i32,
    pub pad: i32,
}

/// The parameters of appends and gathers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct RowsParams {
    /// As many as `gridDim.y` are used.
    pub part: [RowsPart; 2],
    /// `[tokens]`: page * page_size + slot; null: slots follow from positions.
    #[cuda("const long long*")]
    pub slots: u64,
    /// `[tokens]`.
    #[cuda("const int*")]
    pub positions: u64,
    /// `[tokens]`.
    #[cuda("const int*")]
    pub requests: u64,
    /// Of a gather: `[requests + 1]`, prefix sums of keys.
    #[cuda("const int*")]
    pub indptr: u64,
    /// [requests + 1]; null: padded rows of `max_pages`.
    #[cuda("const int*")]
    pub page_indptr: u64,
    /// `[entries]`.
    #[cuda("const int*")]
    pub pages: u64,
    /// Counts the skipped tokens; may be null.
    #[cuda("unsigned*")]
    pub status: u64,
    pub tokens: i64,
    /// Of the pool.
    pub num_pages: i64,
    /// Of the page table.
    pub entries: i64,
    pub num_requests: i32,
    pub max_pages: i32,
    pub page_size: FastDiv,
    pub pad: i32,
}

/// The parameters of appends and gathers of rows of KV formats. Strides of pools count bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct PackedRowsParams {
    #[cuda(base)]
    pub base: RowsParams,
    pub sides: KvSides,
}

/// The parameters of appends that transform queries too.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct RotateAppendParams {
    #[cuda(base)]
    pub base: PackedRowsParams,
    /// Queries, and elements of them that are only converted. The rows of `pool` are those of tokens.
    pub queries: [RowsPart; 2],
    /// 1 for keys alone, 2 for keys and values.
    pub kv_parts: i32,
    pub pad: i32,
}

/// Keys or values. A page is `outer * inner` runs of bytes, each contiguous in both pools. Strides are in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct CopyPart {
    #[cuda("const char*")]
    pub from: u64,
    #[cuda("char*")]
    pub to: u64,
    pub from_page: i64,
    pub to_page: i64,
    pub from_outer: i64,
    pub to_outer: i64,
    pub from_inner: i64,
    pub to_inner: i64,
    pub inner: FastDiv,
    /// Words of a run.
    pub run: FastDiv,
    /// Of a page.
    pub words: u32,
    /// Of a page.
    pub tiles: FastDiv,
}

/// The parameters of copies.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct CopyParams {
    pub part: [CopyPart; 2],
    /// (from, to) pages; null: those of CopyList.
    #[cuda("const int2*")]
    pub pairs: u64,
    /// Counts the skipped pairs; may be null.
    #[cuda("unsigned*")]
    pub status: u64,
    /// The number of pairs.
    pub count: i64,
    pub from_pages: i64,
    pub to_pages: i64,
}

/// The keys or the values of a conversion between an x-packed cache and a pool.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct XPackedPart {
    #[cuda("char*")]
    pub packed: u64,
    #[cuda("char*")]
    pub pool: u64,
    /// Strides in bytes; a chunk of values is one element.
    pub packed_page: i64,
    pub packed_head: i64,
    pub packed_chunk: i64,
    pub packed_slot: i64,
    /// Strides in bytes.
    pub pool_page: i64,
    pub pool_slot: i64,
    pub pool_head: i64,
    pub dim: i32,
    /// Slots of a tile.
    pub tile: i32,
    /// Pitch of a row in shared memory, a multiple of 16.
    pub row_bytes: i32,
    /// Whether rows of the pool are accessed in 16-byte words.
    pub wide: i32,
    /// Elements of a chunk; 1 for values.
    pub x: FastDiv,
    /// Whether a chunk is 16 aligned bytes.
    pub chunk_wide: i32,
    /// 16-byte words of a row.
    pub words: FastDiv,
    /// Elements of a row.
    pub units: FastDiv,
}

/// The parameters of conversions of x-packed caches.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct XPackedParams {
    pub part: [XPackedPart; 2],
    pub heads: FastDiv,
    pub slots: i32,
    /// Whether to convert to the paged pool, or from it.
    pub to_pages: i32,
    pub pad: i32,
}

/// The parameters of the kernels that write rows of a parameter tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct TensorRowsParams {
    #[cuda("const unsigned char*")]
    pub from: u64,
    #[cuda("unsigned char*")]
    pub to: u64,
    /// `[rows]`.
    #[cuda("const int*")]
    pub indices: u64,
    /// Counts rows past the end; may be null.
    #[cuda("unsigned*")]
    pub status: u64,
    pub rows: i64,
    /// Rows that the tensor has.
    pub extent: i64,
    /// Per row.
    pub words: FastDiv,
    pub pad: i32,
}

/// The parameters of the kernels that pack bits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct BitsParams {
    #[cuda("const unsigned char*")]
    pub bools: u64,
    #[cuda("unsigned char*")]
    pub out: u64,
    /// `[segments + 1]`, of segment_packbits.
    #[cuda("const int*")]
    pub indptr: u64,
    /// `[segments + 1]`.
    #[cuda("int*")]
    pub out_indptr: u64,
    /// The number of bools.
    pub count: i64,
    /// Bytes of `out`.
    pub capacity: i64,
    pub segments: i32,
    /// The first bit is the highest.
    pub big_endian: i32,
}
