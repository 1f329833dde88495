// The two products of decode on tensor cores, from fragments of K and of V.
#pragma once
#include "decode/operands.cuh"
#include "decode/swap_ab_layout.cuh"

// Q fragments stay in registers unless the head dim is so large that O needs the registers. Then each step reloads
// them.
constexpr bool Q_IN_REGISTERS = HEAD_DIM_QK <= 256 && HEAD_DIM_VO <= 256;

// S^T = K Q^T.
template <class Keys>
class KeyMma {
  SwapAbSmemQ smem_q_;
  unsigned q_frag_[ROW_BLOCKS][Q_IN_REGISTERS ? HEAD_DIM_QK / 16 : 1][2];

  // The operand B of the k-th 16 dims of a block of 8 query rows.
  void load_q_fragment(unsigned (&q)[2], int block, int k) const {
#pragma unroll
    for (int high = 0; high < 2; ++high)
      q[high] = load_shared_4(smem_q_.at(query_row_of_lane(block), 2 * Keys::query_dim(k / 2, k % 2, high)));
  }

 public:
  static constexpr float UNIT = 1.f;  // what sums are multiplied by

  KeyMma(const Variant&, SwapAbSmemQ smem_q) : smem_q_(smem_q) {
    if constexpr (Q_IN_REGISTERS)
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int k = 0; k < HEAD_DIM_QK / 16; ++k) load_q_fragment(q_frag_[n][k], n, k);
  }

  // S^T = K Q^T. `start` writes what sums begin with.
  template <class Start>
  void multiply(SwapAbScores& s, Start start, const Variant& variant, KvStage stage, int kv_head) {
    // MMAs into one accumulator wait for each other: a single block of scores gets two accumulators.
    constexpr int SUMS = KEY_BLOCKS * ROW_BLOCKS == 1 ? 2 : 1;
    SwapAbScores part[SUMS];
    start(part[0]);
    if constexpr (SUMS == 2)
#pragma unroll
      for (float& x : part[1][0][0]) x = 0.f;
    Keys keys{variant, stage, kv_head};
#pragma unroll
    for (int k = 0; k < (HEAD_DIM_QK + 16) / 32; ++k) {
      unsigned loaded[ROW_BLOCKS][2][2];
      if constexpr (!Q_IN_REGISTERS)
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int u = 0; u < 2; ++u)
            if (2 * k + u < HEAD_DIM_QK / 16) load_q_fragment(loaded[n][u], n, 2 * k + u);
#pragma unroll
      for (int m = 0; m < KEY_BLOCKS; ++m) {
        unsigned a[2][4];
        keys.load(a, 16 * m, k);
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int u = 0; u < 2; ++u)
            if (2 * k + u < HEAD_DIM_QK / 16) {
              const unsigned(&q)[2] = Q_IN_REGISTERS ? q_frag_[n][2 * k + u] : loaded[n][u];
              mma<QkElem>(part[u % SUMS][m][n], a[u], q[0], q[1]);
            }
      }
    }
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m)
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[m][n][e] = part[0][m][n][e] + (SUMS == 2 ? part[SUMS - 1][m][n][e] : 0.f);
  }
};

// O^T += V^T P^T. `Unit`: what P is measured in.
template <class Values, class Unit>
class ValueMma : Unit {
  SwapAbOutput o_ = {};

 public:
  explicit ValueMma(const Variant&) {}

  void multiply(const SwapAbScores& p, const Variant& variant, KvStage stage, int kv_head) {
    constexpr int TILES = Values::TILES;
    Values values{variant, stage, kv_head};
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m) {
      float inverse = Unit::inverse_for(p[m], 1.f, [&](float factor) { scale_output(o_, factor); });
      unsigned b[ROW_BLOCKS][2];
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int high = 0; high < 2; ++high)
          b[n][high] = movmatrix_trans(pack2<PvElem>(p[m][n][2 * high] * inverse, p[m][n][2 * high + 1] * inverse));
#pragma unroll
      for (int k = 0; k < (HEAD_DIM_VO / 16 + TILES - 1) / TILES; ++k) {
        unsigned a[TILES][4];
        values.load(a, 16 * m, k);
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int t = 0; t < TILES; ++t)
            if (TILES * k + t < HEAD_DIM_VO / 16) mma<PvElem>(o_[n][TILES * k + t], a[t], b[n][0], b[n][1]);
      }
    }
  }

  // Multiplies this lane's r-th row, as its row max grows.
  void rescale(int r, float factor) { scale_output_row(o_, r, factor); }

  // The factor of all outputs, and the dim and the sum of an output of this lane's r-th row.
  using Unit::unit;
  static int output_dim(int t, int high) { return Values::output_dim(t, high); }
  float output(int r, int t, int high) const { return o_[r / 2][t][r % 2 + 2 * high]; }
};
