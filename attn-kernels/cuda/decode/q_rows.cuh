// Loads the Q tile of decode into shared memory and applies the variant's query transform on the way.
#pragma once

#include "memory/half_row.cuh"
#include "schedule/q_tile.cuh"
#include "memory/kv_scales.cuh"

// Loads a Q tile. Rows past the last one repeat it.
template <class SmemQ>
inline void load_q_tile(const KernelParams& p, const Variant& variant, const QTile& q_tile, SmemQ smem_q) {
  using Row = HookRow<HEAD_DIM_QK>;
  constexpr int LANES = Row::LANES_OF_ROW;
  constexpr int ROWS_PER_PASS = WARPS * 32 / LANES;
  int own_row = threadIdx.x / LANES;
  // A transform may be long, so the loop is not unrolled: its code exists once.
#pragma unroll 1
  for (int first = 0; first < TILE_ROWS; first += ROWS_PER_PASS) {
    int r = min(first + own_row, TILE_ROWS - 1);
    RowIndex at = q_tile.at(p, q_tile.clamp_row(r));
    Row query;
    load_query_row(query, p, at);
    if constexpr (Variant::HAS_QUERY_TRANSFORM) variant.query_transform(query, at);
    if (first + own_row < TILE_ROWS) store_hook_row(smem_q, r, query);
  }
}
