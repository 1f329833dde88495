// A tile's logits once more, by one warp whatever the others do: of its queries in shared memory and of keys where they came from, since another tile may lie where
// they were. That is done about never, so that it is few instructions, whatever time they take.
#pragma once
#include "prefill/fragments.cuh"
#include "softmax/score_tile.cuh"

// Moves the tile's columns so many blocks of 8 to the left, those that are first to the end: what is to be done with each block, a loop does with the first, or the last.
template <int BLOCKS>
inline void move_columns(Logits& s) {
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

// The row of a tile's key, as tensor cores are given it. Keys past the last one repeat it.
inline const LogitElem* key_row(const LogitTile& tile, int key) {
  const Request& request = tile.block.request;
  const Strided& keys = KEY_PRE_PASS ? tile.p.k_pre : tile.p.k;
  int position = min(tile.first_key + key, tile.span.end() - 1);
  KeyPlace place = {0, key_base<KEY_PRE_PASS>(request) + position};
  if constexpr (KV_PAGED && !KEY_PRE_PASS) place = find_key<true>(tile.p, request, page_row(tile.p, request), position);
  return static_cast<const LogitElem*>(keys.data) + key_offset<KV_PAGED && !KEY_PRE_PASS>(keys, place) + tile.block.kv_head * keys.head;
}

// logits = Q K^T, unscaled.
inline void multiply_again(Logits& s, QueryTileRows queries, const LogitTile& tile) {
  OperandLanes lanes;
#pragma unroll 1
  for (int n = 0; n < TILE_KEYS / 8; ++n) {
    const unsigned* key = reinterpret_cast<const unsigned*>(key_row(tile, 8 * n + threadIdx.x % 32 / 4)) + threadIdx.x % 4;
    move_columns<1>(s);
    float(&last)[4] = s[0][TILE_KEYS / 8 - 1];
#pragma unroll
    for (float& x : last) x = 0.f;
#pragma unroll 1
    for (int d = 0; d < HEAD_DIM / 16; ++d) {
      unsigned a[4];
      load_matrices(a, queries.right(queries.base + lanes.query, 2 * d));
      mma<LogitElem>(last, a, key[8 * d], key[8 * d + 4]);
    }
  }
}
