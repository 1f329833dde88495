//! The parameter structs of ops in `cuda/ops/*.cuh`, field by field. Each translation unit asserts their sizes.

use bytemuck::{Pod, Zeroable};

use super::{FastDiv, Strided};

/// Threads of a CTA of every op: `OP_THREADS` of cuda/ops/index.cuh.
pub const OP_THREADS: u32 = 256;
/// Pairs of pages that one launch takes as a kernel parameter: `COPY_INLINE` of cuda/ops/copy.cuh.
pub const COPY_INLINE: usize = 448;

macro_rules! mirrored {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
        #[allow(missing_docs)] // as in the template
        pub struct $name { $(pub $field: $ty),* }
    )*};
}

mirrored! {
    /// How threads share rows: `RowTiling` of ops/index.cuh.
    RowTiling { heads: FastDiv, chunks: FastDiv, rows: i32, pad: i32 }
    /// `MergeStates` of ops/merge.cuh.
    MergeStates {
        o: u64, lse: u64,
        o_token: i64, o_state: i64, o_head: i64,
        lse_token: i64, lse_state: i64, lse_head: i64,
    }
    /// `MergeParams` of ops/merge.cuh.
    MergeParams {
        many: MergeStates, other: MergeStates, out: MergeStates,
        mask: u64, rows: i64, share: RowTiling,
        states: i32, others: i32, sums: i32, pad: i32,
    }
    /// `ScaleLseParams` of ops/lse.cuh.
    ScaleLseParams { lse: u64, token: i64, head: i64, count: i64, heads: FastDiv, factor: f32 }
    /// `RowsPart` of ops/rows_params.cuh.
    RowsPart {
        packed: Strided, pool: Strided, scales: u64, share: RowTiling,
        dim: i32, scale: f32, raw: i32, pad: i32,
    }
    /// `RowsParams` of ops/rows_params.cuh.
    RowsParams {
        part: [RowsPart; 2],
        slots: u64, positions: u64, requests: u64, indptr: u64, page_indptr: u64, pages: u64, status: u64,
        tokens: i64, num_pages: i64, entries: i64,
        num_requests: i32, max_pages: i32, page_size: FastDiv, pad: i32,
    }
    /// `CopyPart` of ops/copy.cuh.
    CopyPart {
        from: u64, to: u64,
        from_page: i64, to_page: i64, from_outer: i64, to_outer: i64, from_inner: i64, to_inner: i64,
        inner: FastDiv, run: FastDiv, words: u32, tiles: FastDiv,
    }
    /// `CopyParams` of ops/copy.cuh.
    CopyParams {
        part: [CopyPart; 2],
        pairs: u64, status: u64, count: i64, from_pages: i64, to_pages: i64,
    }
    /// `XPackedPart` of ops/x_packed.cuh.
    XPackedPart {
        packed: u64, pool: u64,
        packed_page: i64, packed_head: i64, packed_chunk: i64, packed_slot: i64,
        pool_page: i64, pool_slot: i64, pool_head: i64,
        dim: i32, tile: i32, row_bytes: i32, wide: i32,
        x: FastDiv, chunk_wide: i32, words: FastDiv, units: FastDiv,
    }
    /// `XPackedParams` of ops/x_packed.cuh.
    XPackedParams { part: [XPackedPart; 2], heads: FastDiv, slots: i32, to_pages: i32, pad: i32 }
    /// `BitsParams` of ops/bits.cuh.
    BitsParams {
        bools: u64, out: u64, indptr: u64, out_indptr: u64, count: i64, capacity: i64,
        segments: i32, big_endian: i32,
    }
}
