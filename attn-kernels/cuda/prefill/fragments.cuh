// What a warp holds in registers: logits and outputs as tensor-core accumulators.
//
// A warp has ROW_BLOCKS blocks of 16 rows, and of their outputs a group of columns: rows of more than 256 values are too long for the
// registers of one, so COLUMN_WARPS warps have the same rows, all of their logits, and each its columns. Lane l holds, of block m and 8-column block n, the four values
// (row l / 4, columns 2 * (l % 4) and the next) and (row l / 4 + 8, the same columns).
#pragma once
#include "softmax/score_element.cuh"
#include "memory/smem_tile.cuh"

constexpr int ROW_BLOCKS = TILE_ROWS * COLUMN_WARPS / WARPS / 16;
constexpr int ROWS_PER_THREAD = 2 * ROW_BLOCKS;
constexpr int COLUMNS = VALUE_DIM / COLUMN_WARPS;  // of outputs, of a warp
static_assert(ROW_BLOCKS * WARPS * 16 == TILE_ROWS * COLUMN_WARPS, "a warp has whole blocks of 16 rows");
static_assert(COLUMN_WARPS == 1 || VALUE_DIM % (64 * COLUMN_WARPS) == 0, "a warp has whole panels of values");

using Logits = float[ROW_BLOCKS][TILE_KEYS / 8][4];
using Outputs = float[ROW_BLOCKS][COLUMNS / 8][4];

// Row within the CTA's tile of this thread's row `r`, 0 <= r < ROWS_PER_THREAD.
inline int fragment_row(int r) {
  return threadIdx.x / (32 * COLUMN_WARPS) * (16 * ROW_BLOCKS) + r / 2 * 16 + r % 2 * 8 + threadIdx.x % 32 / 4;
}
// First of this thread's two adjacent columns in an 8-column block.
inline int fragment_column() { return threadIdx.x % 4 * 2; }

// The first of this warp's columns of outputs.
inline int first_column() { return COLUMN_WARPS == 1 ? 0 : threadIdx.x / 32 % COLUMN_WARPS * COLUMNS; }

template <int COLUMN_BLOCKS>
inline void clear(float (&x)[ROW_BLOCKS][COLUMN_BLOCKS][4]) {
#pragma unroll
  for (int m = 0; m < ROW_BLOCKS; ++m)
#pragma unroll
    for (int n = 0; n < COLUMN_BLOCKS; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) x[m][n][e] = 0.f;
}

// Where this lane finds its parts of the operands: offsets from the base of a tile.
struct OperandLanes {
  unsigned query, key, value;

  OperandLanes() {
    int lane = threadIdx.x % 32;
    query = QueryTileRows{0}.at(threadIdx.x / (32 * COLUMN_WARPS) * (16 * ROW_BLOCKS) + lane % 16, lane / 16);
    key = KeyTile{0}.at(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    value = ValueTile{0}.at(lane % 16, lane / 16) + first_column() / 64 * ValueTile::PANEL_BYTES;
    keep_in_register(query);
    keep_in_register(key);
    keep_in_register(value);
  }
};

// logits += Q K^T, unscaled, of the keys from 16 * `first` to before 16 * `end`; of the d-th 16 dims, and of all.
inline void multiply_queries_keys(Logits& s, QueryTileRows q, KeyTile k, int d, int first, int end, const OperandLanes& lanes) {
  unsigned a[ROW_BLOCKS][4];
#pragma unroll
  for (int m = 0; m < ROW_BLOCKS; ++m) load_matrices(a[m], q.down(q.right(q.base + lanes.query, 2 * d), 16 * m));
#pragma unroll
  for (int n = first; n < end; ++n) {
    unsigned b[4];
    load_matrices(b, k.down(k.right(k.base + lanes.key, 2 * d), 16 * n));
#pragma unroll
    for (int m = 0; m < ROW_BLOCKS; ++m) {
      mma<LogitElem>(s[m][2 * n], a[m], b[0], b[1]);
      mma<LogitElem>(s[m][2 * n + 1], a[m], b[2], b[3]);
    }
  }
}
inline void multiply_queries_keys(Logits& s, QueryTileRows q, KeyTile k, int first, int end, const OperandLanes& lanes) {
#pragma unroll
  for (int d = 0; d < HEAD_DIM / 16; ++d) multiply_queries_keys(s, q, k, d, first, end, lanes);
}

// Weights of 16 keys, as an operand: accumulators of the first product become it without leaving their lane.
using Weights = unsigned[ROW_BLOCKS][4];

inline void pack_weights(Weights& w, const Logits& s, int n) {
#pragma unroll
  for (int m = 0; m < ROW_BLOCKS; ++m) {
    w[m][0] = pack2<WeightElem>(s[m][2 * n][0], s[m][2 * n][1]);
    w[m][1] = pack2<WeightElem>(s[m][2 * n][2], s[m][2 * n][3]);
    w[m][2] = pack2<WeightElem>(s[m][2 * n + 1][0], s[m][2 * n + 1][1]);
    w[m][3] = pack2<WeightElem>(s[m][2 * n + 1][2], s[m][2 * n + 1][3]);
  }
}

// outputs += weights * V, for the n-th 16 keys of the tile.
inline void multiply_weights_values(Outputs& o, const Weights& w, ValueTile v, int n, const OperandLanes& lanes) {
#pragma unroll
  for (int d = 0; d < COLUMNS / 16; ++d) {
    unsigned b[4];
    load_matrices_transposed(b, v.down(v.right(v.base + lanes.value, 2 * d), 16 * n));
#pragma unroll
    for (int m = 0; m < ROW_BLOCKS; ++m) {
      mma<WeightElem>(o[m][2 * d], w[m], b[0], b[1]);
      mma<WeightElem>(o[m][2 * d + 1], w[m], b[2], b[3]);
    }
  }
}
