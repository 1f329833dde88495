//! The K/V preprocessing kernel of a prefill kernel: its grid, and the memory that it writes.

use super::{KV_PREPROCESS_THREADS, KernelTraits, row_lanes};
use crate::launch::Strided;

impl KernelTraits {
    /// Whether the K/V preprocessing kernel runs before the main kernel.
    pub fn has_kv_preprocess(&self) -> bool {
        self.preprocess_keys || self.preprocess_values
    }

    /// Keys of a CTA of the preprocessing kernel (`KV_PREPROCESS_KEYS` in CUDA).
    pub fn kv_preprocess_keys(&self) -> u32 {
        if self.e4m3_compute {
            return self.tile_keys;
        }
        KV_PREPROCESS_THREADS / row_lanes(self.head_dim.max(self.value_dim))
    }

    /// KV heads of a CTA of the preprocessing kernel (`KV_PREPROCESS_HEADS` in CUDA).
    pub fn kv_preprocess_heads(&self) -> u32 {
        if self.e4m3_compute || self.head_dim.max(self.value_dim) > 256 { 1 } else { 4 }
    }

    /// The grid of the preprocessing kernel, for a number of tokens in requests. Transposed values are in tiles, with
    /// which each request begins anew.
    pub fn kv_preprocess_grid(&self, tokens: u32, requests: u32, kv_heads: u32) -> [u32; 2] {
        let ctas = match self.e4m3_compute {
            true => u32::try_from(self.transposed_tiles(tokens.into(), requests.into())).unwrap_or(u32::MAX),
            false => tokens.div_ceil(self.kv_preprocess_keys()),
        };
        [if tokens == 0 { 0 } else { ctas }, kv_heads.div_ceil(self.kv_preprocess_heads())]
    }

    /// Tiles of transposed values. That of a request's first keys is `first key token / tile_keys + request`, so that
    /// no table tells it, and requests share no tile.
    pub fn transposed_tiles(&self, tokens: u64, requests: u64) -> u64 {
        tokens / u64::from(self.tile_keys) + requests
    }

    /// Bytes of preprocessed values, of all heads.
    pub fn preprocessed_value_bytes(&self, tokens: u64, requests: u64, kv_heads: u32) -> u64 {
        let keys = match self.e4m3_compute {
            true => self.transposed_tiles(tokens, requests) * u64::from(self.tile_keys),
            false => 2 * tokens, // always of 16 bits
        };
        if self.preprocess_values { keys * u64::from(kv_heads) * u64::from(self.value_dim) } else { 0 }
    }

    /// The tensor of preprocessed values at an address, in elements of 16 bits. Transposed ones are in pairs: a row has
    /// the keys of a tile and a dim, a tile as many rows as values have dims, and a head all tiles.
    pub fn preprocessed_values(&self, data: u64, tokens: u64, requests: u64, kv_heads: u32) -> Strided {
        let dim = i64::from(self.value_dim);
        if self.e4m3_compute {
            let token = i64::from(self.tile_keys / 2);
            return Strided { data, token, head: self.transposed_rows(tokens, requests) as i64 * token, page: 0 };
        }
        Strided { data, token: i64::from(kv_heads) * dim, head: dim, page: 0 }
    }

    /// Rows of a head of transposed values.
    pub fn transposed_rows(&self, tokens: u64, requests: u64) -> u64 {
        self.transposed_tiles(tokens, requests) * u64::from(self.value_dim)
    }

    /// Keys or values in memory as kernels read them through tensor maps. Those of e4m3 compute are pairs, elements of
    /// 16 bits.
    pub fn in_pairs(&self, of: Strided) -> Strided {
        if !self.e4m3_compute {
            return of;
        }
        Strided { token: of.token / 2, head: of.head / 2, page: of.page / 2, ..of }
    }
}
