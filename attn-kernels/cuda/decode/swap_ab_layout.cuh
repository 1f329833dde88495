// The layout of swap-AB MMAs of decode for one warp: S^T = K Q^T, O^T = V^T P^T.
//
// S^T is in blocks of 16 keys by 8 query rows. Lane l holds the keys l / 4 and l / 4 + 8 of the rows 2 * (l % 4) and
// 2 * (l % 4) + 1. O^T has the same layout with dims in place of keys.
#pragma once
#include "decode/kv_pipeline.cuh"

constexpr int ROW_BLOCKS = TILE_ROWS / 8;
constexpr int KEY_BLOCKS = WARP_KEYS / 16;
static_assert(ROW_BLOCKS * 8 == TILE_ROWS, "whole blocks of rows");

using SwapAbScores = float[KEY_BLOCKS][ROW_BLOCKS][4];
using SwapAbOutput = float[ROW_BLOCKS][HEAD_DIM_VO / 16][4];

// The Q tile in shared memory: transformed rows in the element type of the QK^T MMA.
using SwapAbSmemQ = RowTile<QkElem, TILE_ROWS, HEAD_DIM_QK>;

// This lane's r-th row in the Q tile, and the row of the Q tile whose dims it has in operand B of a block.
inline int row_of_lane(int r) { return r / 2 * 8 + threadIdx.x % 4 * 2 + r % 2; }
inline int query_row_of_lane(int block) { return 8 * block + threadIdx.x % 32 / 4; }
// Index within the warp's step of this lane's key in the lower (`half`: upper) eight of the m-th block of keys.
inline int key_of_lane(int m, int half) { return 16 * m + 8 * half + threadIdx.x % 32 / 4; }

// Multiplies this lane's r-th row of O.
inline void scale_output_row(SwapAbOutput& o, int r, float factor) {
#pragma unroll
  for (int t = 0; t < HEAD_DIM_VO / 16; ++t) {
    o[r / 2][t][r % 2] *= factor;
    o[r / 2][t][r % 2 + 2] *= factor;
  }
}
// Multiplies O.
inline void scale_output(SwapAbOutput& o, float factor) {
#pragma unroll
  for (auto& of_rows : o)
#pragma unroll
    for (auto& tile : of_rows)
#pragma unroll
      for (float& x : tile) x *= factor;
}
