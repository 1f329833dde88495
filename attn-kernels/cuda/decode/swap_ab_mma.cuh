// The products of split-KV decode on tensor cores, as DecodeMainloop takes them: swap-AB MMAs over the keys that a warp
// owns.
#pragma once

#include "softmax/units.cuh"
#include "decode/dense_products.cuh"
#include "decode/partials.cuh"

// A warp's fragments of Q and O.
class SwapAbMma {
  KeyProduct qk_;
  ValueProduct pv_;

 public:
  using SmemQ = SwapAbSmemQ;
  using Scores = SwapAbScores;
  static constexpr int ROWS = 2 * ROW_BLOCKS;             // query rows of which a lane holds scores
  static constexpr float SCORE_UNIT = KeyProduct::UNIT;   // what scores are multiplied by
  static constexpr bool STARTS_WITH_BIAS = true;          // of what is added to scores
  static constexpr bool HAS_KEY_STEPS = true;             // keys of a lane differ by constants
  static constexpr bool WHOLE_PASSES = true;              // rows of a warp are no more than its keys
  static constexpr bool SATURATES_P = SAME<PvElem, f16>;  // P is rounded to f16
  static constexpr int KEY_LANES = 1;                     // that hold the same scores

  SwapAbMma(const Variant& variant, SmemQ smem_q) : qk_(variant, smem_q), pv_(variant) {}

  // This lane's r-th row in the Q tile.
  static int row(int r) { return row_of_lane(r); }

  // Calls f(score, r, key, position, step) for each of this lane's scores: r numbers its rows, `key` the warp's keys,
  // `position` is that of the key, `step` the part of `key` that is the same for all lanes.
  template <class Position, class F>
  static void for_each_score(Scores& s, Position position, F f) {
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int key = key_of_lane(m, e / 2), kv_pos = position(key);
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n) f(s[m][n][e], 2 * n + e % 2, key, kv_pos, 16 * m + e / 2 * 8);
      }
  }
  // Calls f(score, r).
  template <class F>
  static void for_each_score(Scores& s, F f) {
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m)
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) f(s[m][n][e], 2 * n + e % 2);
  }

  // The largest of `start` and this lane's scores of its r-th row.
  static float max_of_row(const Scores& s, int r, float start) {
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m) start = fmaxf(start, fmaxf(s[m][r / 2][r % 2], s[m][r / 2][r % 2 + 2]));
    return start;
  }
  // Over all lanes that hold scores of a row.
  static float max_over_lanes(float x) { return max_across<4>(x); }
  static float sum_over_lanes(float x) { return sum_across<4>(x); }

  // S^T = K Q^T. `start` writes what sums begin with.
  template <class Start>
  void gemm_qk(Scores& s, Start start, const Variant& variant, KvStage stage, int kv_head) {
    qk_.multiply(s, start, variant, stage, kv_head);
  }
  // O^T += V^T P^T.
  void gemm_pv(const Scores& p, const Variant& variant, KvStage stage, int kv_head) {
    pv_.multiply(p, variant, stage, kv_head);
  }
  // Multiplies O of this lane's r-th row.
  void rescale(int r, float factor) { pv_.rescale(r, factor); }

  // Stores this lane's O of its r-th row, times `scale`.
  void store(const SmemPartials& partials, int r, float scale) const {
    scale *= pv_.unit();
    int warp = threadIdx.x / 32;
#pragma unroll
    for (int t = 0; t < HEAD_DIM_VO / 16; ++t)
#pragma unroll
      for (int high = 0; high < 2; ++high)
        *partials.partial_o(warp, row(r), ValueProduct::output_dim(t, high)) = pv_.output(r, t, high) * scale;
  }
  // Whether this lane stores (row_max, row_sum) of its rows.
  static bool stores_state() { return threadIdx.x % 32 < 4; }
};

using DecodeMma = SwapAbMma;
