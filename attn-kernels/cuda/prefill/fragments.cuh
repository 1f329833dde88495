// MMA fragments of prefill: the accumulators S and O, the operand P, and gemm_qk and gemm_pv on mma.sync (sm_80).
//
// A warp has ROW_BLOCKS blocks of 16 rows. If head_dim_vo exceeds 256, O does not fit one warp's registers:
// COLUMN_WARPS warps then share the same rows; each has its own columns of O. Of row block m and
// 8-column block n, lane l holds (row l / 4, columns 2 * (l % 4) and the next) and (row l / 4 + 8, the same columns).
#pragma once
#include "softmax/score_element.cuh"
#include "memory/smem_tile.cuh"

constexpr int ROW_BLOCKS = TILE_ROWS * COLUMN_WARPS / WARPS / 16;
constexpr int ROWS_PER_THREAD = 2 * ROW_BLOCKS;
constexpr int COLUMNS = HEAD_DIM_VO / COLUMN_WARPS;  // columns of O of one warp
static_assert(ROW_BLOCKS * WARPS * 16 == TILE_ROWS * COLUMN_WARPS, "a warp has whole blocks of 16 rows");
static_assert(COLUMN_WARPS == 1 || HEAD_DIM_VO % (64 * COLUMN_WARPS) == 0, "a warp has whole panels of values");

using ScoreFragment = float[ROW_BLOCKS][TILE_KEYS / 8][4];
using OutputFragment = float[ROW_BLOCKS][COLUMNS / 8][4];

// This warp's number among those of other rows, and among those that share its rows: neighbours, or on sm_90 a warp of
// each warpgroup, since the rows of a WGMMA are those of a whole warpgroup.
inline int row_warp() {
  unsigned warp = threadIdx.x / 32;
  return SM90_PREFILL && COLUMN_WARPS > 1 ? warp % (WARPS / COLUMN_WARPS) : warp / COLUMN_WARPS;
}
inline int column_warp() {
  if constexpr (COLUMN_WARPS == 1) return 0;
  return SM90_PREFILL ? threadIdx.x / (32 * WARPS / COLUMN_WARPS) : threadIdx.x / 32 % COLUMN_WARPS;
}

// Row within the Q tile of this thread's row `r`, 0 <= r < ROWS_PER_THREAD.
inline int fragment_row(int r) {
  return row_warp() * (16 * ROW_BLOCKS) + r / 2 * 16 + r % 2 * 8 + threadIdx.x % 32 / 4;
}
// First of this thread's two adjacent columns in an 8-column block.
inline int fragment_column() { return threadIdx.x % 4 * 2; }

// The maximum of a quad of lanes: a row lies in four lanes.
inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
  return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
}

// x becomes the sum of the quad.
inline void add_quad(float& x) {
  x += __shfl_xor_sync(ALL_LANES, x, 1);
  x += __shfl_xor_sync(ALL_LANES, x, 2);
}

// First column of O of this warp.
inline int first_column() { return column_warp() * COLUMNS; }

template <int COLUMN_BLOCKS>
inline void clear(float (&x)[ROW_BLOCKS][COLUMN_BLOCKS][4]) {
#pragma unroll
  for (int m = 0; m < ROW_BLOCKS; ++m)
#pragma unroll
    for (int n = 0; n < COLUMN_BLOCKS; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) x[m][n][e] = 0.f;
}

// Offsets of this lane's ldmatrix addresses from the base of a tile.
struct OperandOffsets {
  unsigned query, key, value;

  OperandOffsets() {
    int lane = threadIdx.x % 32;
    query = SmemQ{0}.at(row_warp() * (16 * ROW_BLOCKS) + lane % 16, lane / 16);
    key = SmemK{0}.at(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    value = SmemV{0}.at(lane % 16, lane / 16) + first_column() / 64 * SmemV::PANEL_BYTES;
    keep_in_register(query);
    keep_in_register(key);
    keep_in_register(value);
  }
};

// gemm_qk: S += Q K^T, unscaled, for the keys from 16 * `first` to 16 * `end`; for the d-th 16 dims, and for all.
inline void gemm_qk(ScoreFragment& s, SmemQ q, SmemK k, int d, int first, int end, const OperandOffsets& lanes) {
  unsigned a[ROW_BLOCKS][4];
#pragma unroll
  for (int m = 0; m < ROW_BLOCKS; ++m)
    ldmatrix_x4(a[m], q.advance_rows(q.advance_chunks(q.base + lanes.query, 2 * d), 16 * m));
#pragma unroll
  for (int n = first; n < end; ++n) {
    unsigned b[4];
    ldmatrix_x4(b, k.advance_rows(k.advance_chunks(k.base + lanes.key, 2 * d), 16 * n));
#pragma unroll
    for (int m = 0; m < ROW_BLOCKS; ++m) {
      mma<QkElem>(s[m][2 * n], a[m], b[0], b[1]);
      mma<QkElem>(s[m][2 * n + 1], a[m], b[2], b[3]);
    }
  }
}
inline void gemm_qk(ScoreFragment& s, SmemQ q, SmemK k, int first, int end, const OperandOffsets& lanes) {
#pragma unroll
  for (int d = 0; d < HEAD_DIM_QK / 16; ++d) gemm_qk(s, q, k, d, first, end, lanes);
}

// P of 16 keys as an A operand: the accumulators of S have that layout already, so that no lane exchanges data.
using ProbFragment = unsigned[ROW_BLOCKS][4];

inline void pack_probs(ProbFragment& w, const ScoreFragment& s, int n) {
#pragma unroll
  for (int m = 0; m < ROW_BLOCKS; ++m) {
    w[m][0] = pack2<PvElem>(s[m][2 * n][0], s[m][2 * n][1]);
    w[m][1] = pack2<PvElem>(s[m][2 * n][2], s[m][2 * n][3]);
    w[m][2] = pack2<PvElem>(s[m][2 * n + 1][0], s[m][2 * n + 1][1]);
    w[m][3] = pack2<PvElem>(s[m][2 * n + 1][2], s[m][2 * n + 1][3]);
  }
}

// gemm_pv: O += P V for the n-th 16 keys of the tile.
inline void gemm_pv(OutputFragment& o, const ProbFragment& w, SmemV v, int n, const OperandOffsets& lanes) {
#pragma unroll
  for (int d = 0; d < COLUMNS / 16; ++d) {
    unsigned b[4];
    ldmatrix_x4_trans(b, v.advance_rows(v.advance_chunks(v.base + lanes.value, 2 * d), 16 * n));
#pragma unroll
    for (int m = 0; m < ROW_BLOCKS; ++m) {
      mma<PvElem>(o[m][2 * d], w[m], b[0], b[1]);
      mma<PvElem>(o[m][2 * d + 1], w[m], b[2], b[3]);
    }
  }
}
