// Decode's query rows on their way from memory into shared memory, through the variant's transform.
#pragma once

#include "memory/half_row.cuh"
#include "schedule/q_tile.cuh"
#include "memory/kv_scales.cuh"

// Queries of a tile, as they meet keys.
using QueryRows = RowTile<LogitElem, TILE_ROWS, HEAD_DIM>;

// Loads a tile's queries; rows past the last one repeat it.
inline void load_queries(const KernelParams& p, const Variant& variant, const QueryBlock& block, QueryRows queries) {
  using Row = HookRow<HEAD_DIM>;
  constexpr int LANES = Row::LANES_OF_ROW;
  constexpr int TEAMS = WARPS * 32 / LANES;
  int team = threadIdx.x / LANES;
  // A transform may be long: it is in the code once.
#pragma unroll 1
  for (int first = 0; first < TILE_ROWS; first += TEAMS) {
    int r = min(first + team, TILE_ROWS - 1);
    RowIndex at = block.at(p, block.existing(r));
    const QoElem* row = static_cast<const QoElem*>(p.q.data) + row_offset(p.q, at) + Row::first();
    Row query;
    if constexpr (Row::IN_HALVES) {
      uint2 low = *reinterpret_cast<const uint2*>(row), high = *reinterpret_cast<const uint2*>(row + HEAD_DIM / 2);
      unpack<QoElem>(query, {low.x, low.y, high.x, high.y});
    } else {
#pragma unroll
      for (int eight = 0; eight < Row::VALUES_OF_LANE / 8; ++eight) {
        uint4 words = {};
        if (Row::holds()) words = *reinterpret_cast<const uint4*>(row + 8 * eight);
        unpack<QoElem>(query, words, eight);
      }
    }
    if constexpr (Variant::HAS_QUERY_TRANSFORM) variant.query_transform(query, at);
    if (first + team < TILE_ROWS) store_hook_row(queries, r, query);
  }
}
