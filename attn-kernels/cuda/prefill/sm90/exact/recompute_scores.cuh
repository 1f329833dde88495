// Recomputes S of one warp with mma.sync, from Q in shared memory and K in global memory (its stage may hold another
// tile by now). It is the fallback when a lazy max overflows, which hardly ever happens, so that it is small rather
// than fast.
#pragma once
#include "prefill/fragments.cuh"
#include "softmax/score_tile.cuh"

// Rotates the tile's columns left by BLOCKS blocks of 8, the first ones to the end. A rolled loop can then always work
// on the first block, or the last: registers have no run-time index.
template <int BLOCKS>
inline void rotate_columns(ScoreFragment& s) {
  static_assert(ROW_BLOCKS == 1, "a warp has 16 rows");
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    float first[BLOCKS];
#pragma unroll
    for (int n = 0; n < BLOCKS; ++n) first[n] = s[0][n][e];
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 8 - BLOCKS; ++n) s[0][n][e] = s[0][n + BLOCKS][e];
#pragma unroll
    for (int n = 0; n < BLOCKS; ++n) s[0][TILE_KEYS / 8 - BLOCKS + n][e] = first[n];
  }
}

// The row of a tile's key in global memory, in the element type of gemm_qk. Keys that do not exist repeat others.
inline const QkElem* k_row(const ScoreTile& tile, int key) {
  const Request& request = tile.q_tile.request;
  const Strided& keys = K_PREPROCESSED ? tile.p.k_pre : tile.p.k;
  int position = tile.kv_range.clamp(tile.position(key));
  KvLocation location = {0, key_base<K_PREPROCESSED>(request) + position};
  if constexpr (KV_PAGED && !K_PREPROCESSED)
    location = locate_key<true>(tile.p, request, page_table_row(tile.p, request), position);
  return static_cast<const QkElem*>(keys.data) + key_offset<(KV_PAGED && !K_PREPROCESSED)>(keys, location) +
         tile.q_tile.kv_head * keys.head;
}

// S = Q K^T, unscaled.
inline void recompute_scores(ScoreFragment& s, SmemQ smem_q, const ScoreTile& tile) {
  OperandOffsets lanes;
#pragma unroll 1
  for (int n = 0; n < TILE_KEYS / 8; ++n) {
    const unsigned* key =
        reinterpret_cast<const unsigned*>(k_row(tile, 8 * n + threadIdx.x % 32 / 4)) + threadIdx.x % 4;
    rotate_columns<1>(s);
    float(&last)[4] = s[0][TILE_KEYS / 8 - 1];
#pragma unroll
    for (float& x : last) x = 0.f;
#pragma unroll 1
    for (int d = 0; d < HEAD_DIM_QK / 16; ++d) {
      unsigned a[4];
      ldmatrix_x4(a, smem_q.advance_chunks(smem_q.base + lanes.query, 2 * d));
      mma<QkElem>(last, a, key[8 * d], key[8 * d + 4]);
    }
  }
}
