//! The K/V preprocessing kernel of a prefill kernel: its grid, and the memory that it writes.

use attn_core::{
    dtype::Dtypes,
    spec::{ComputeType, KernelKind},
};

use super::abi::Strided;
use crate::kernel_traits::{CommonTraits, KernelTraits, row_lanes};

/// Threads of a CTA of the K/V preprocessing kernel.
pub const KV_PREPROCESS_THREADS: u32 = 128;

impl KernelTraits {
    /// Whether the K/V preprocessing kernel runs before the main kernel.
    pub fn has_kv_preprocess(&self) -> bool {
        self.facts().preprocessed != [false; 2]
    }

    /// Keys of a tile of transposed values, if they are.
    fn transposed_keys(&self) -> Option<u32> {
        self.facts().transposed_keys
    }

    /// Elements of the longer of keys and values.
    fn longest(&self) -> u32 {
        self.common.head_dim.max(self.common.value_dim)
    }

    /// Keys of a CTA of the preprocessing kernel (`KV_PREPROCESS_KEYS` in CUDA).
    pub fn kv_preprocess_keys(&self) -> u32 {
        let steps = if self.kind() == KernelKind::Mixed && !self.shared_rows() { 16 } else { 1 };
        self.transposed_keys().unwrap_or_else(|| KV_PREPROCESS_THREADS / row_lanes(self.longest()) * steps)
    }

    /// KV heads of a CTA of the preprocessing kernel (`KV_PREPROCESS_HEADS` in CUDA).
    pub fn kv_preprocess_heads(&self) -> u32 {
        if self.transposed_keys().is_some() || self.longest() > 256 { 1 } else { 4 }
    }

    /// The grid of the preprocessing kernel, for a number of tokens in requests. Transposed values are in tiles, with
    /// which each request begins anew.
    pub fn kv_preprocess_grid(&self, tokens: u32, requests: u32, kv_heads: u32) -> [u32; 2] {
        let ctas = match self.transposed_keys() {
            Some(keys) => u32::try_from(tiles(keys, tokens.into(), requests.into())).unwrap_or(u32::MAX),
            None => tokens.div_ceil(self.kv_preprocess_keys()),
        };
        [if tokens == 0 { 0 } else { ctas }, kv_heads.div_ceil(self.kv_preprocess_heads())]
    }

    /// Bytes of preprocessed values, of all heads.
    pub fn preprocessed_value_bytes(&self, tokens: u64, requests: u64, kv_heads: u32) -> u64 {
        let keys = match self.transposed_keys() {
            Some(keys) => tiles(keys, tokens, requests) * u64::from(keys),
            None => 2 * tokens, // always of 16 bits
        };
        if self.facts().preprocessed[1] { keys * u64::from(kv_heads) * u64::from(self.common.value_dim) } else { 0 }
    }

    /// The tensor of preprocessed values at an address, in elements of 16 bits. Transposed ones are in pairs: a row has
    /// the keys of a tile and a dim, a tile as many rows as values have dims, and a head all tiles.
    pub fn preprocessed_values(&self, data: u64, tokens: u64, requests: u64, kv_heads: u32) -> Strided {
        let dim = i64::from(self.common.value_dim);
        match self.transposed_keys() {
            Some(keys) => {
                let (token, rows) = (i64::from(keys / 2), tiles(keys, tokens, requests) as i64 * dim);
                Strided { data, token, head: rows * token, page: 0 }
            }
            None => Strided { data, token: i64::from(kv_heads) * dim, head: dim, page: 0 },
        }
    }

    /// The extents of keys and of values as sm90 prefill reads them through tensor maps, in elements of 16 bits: those
    /// of a key, those of a row of values, and the rows of a head of preprocessed values. Pairs of 8 bits are one.
    pub fn kv_extents(&self, tokens: u64, requests: u64) -> (u32, u32, u64) {
        let CommonTraits { head_dim, value_dim, .. } = self.common;
        match self.transposed_keys() {
            Some(keys) => (head_dim / 2, keys / 2, tiles(keys, tokens, requests) * u64::from(value_dim)),
            None => (head_dim, value_dim, tokens),
        }
    }

    /// Whether sm90 prefill decodes keys as it loads them (`KEYS_DECODED` in CUDA), without tensor maps.
    pub fn decodes_keys(&self) -> bool {
        let (Dtypes { qo, kv, .. }, facts) = (self.common.dtypes, self.facts());
        kv != qo && facts.wgmma == Some(ComputeType::Exact) && !facts.preprocessed[0]
    }

    /// Keys or values in memory as kernels read them through tensor maps: of 8 bits in pairs, elements of 16.
    pub fn in_pairs(&self, of: Strided) -> Strided {
        match self.transposed_keys() {
            Some(_) => Strided { token: of.token / 2, head: of.head / 2, page: of.page / 2, ..of },
            None => of,
        }
    }
}

/// Tiles of transposed values. That of a request's first keys is `first key token / keys + request`, so that no table
/// tells it, and requests share no tile.
fn tiles(keys: u32, tokens: u64, requests: u64) -> u64 {
    tokens / u64::from(keys) + requests
}
