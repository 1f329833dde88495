// Loads the Q tile of decode into shared memory and applies the variant's query transform on the way.
#pragma once

#include "memory/half_row.cuh"
#include "schedule/q_tile.cuh"
#include "memory/kv_scales.cuh"
#ifdef ATTN_STORED_Q
#include "memory/query.cuh"
#endif  // ATTN_STORED_Q

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
#ifdef ATTN_STORED_Q
    load_query_row(query, static_cast<const StoredQElem*>(p.q.data) + row_offset(p.q, at), query_scale(p));
#else  // ATTN_STORED_Q
    load_row(query, static_cast<const QoElem*>(p.q.data) + row_offset(p.q, at) + Row::first());
#endif  // ATTN_STORED_Q
    if constexpr (Variant::HAS_QUERY_TRANSFORM) variant.query_transform(query, at);
    if (first + own_row < TILE_ROWS) store_hook_row(smem_q, r, query);
  }
}
