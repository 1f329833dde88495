// Softmax step of 8-bit products: S of a tile becomes P in registers of its own, while gemm_pv of the previous tile
// runs.
//
// P is 2^(x - m + 4) for a logit x in powers of two, with a whole number m: rescaling is then exact, and P is rounded
// to the same values whatever m is, unless it is below the normal numbers of e4m3. Once all rows of a warp have seen a
// key, m is stale: a logit may exceed it by 2^4.8. A partial row sum of at most 448 proves that no P was saturated. If
// it is larger, the warp repeats the tile from S, which is still there, with the tile's row max.
#pragma once
#include "prefill/sm90/e4m3/q_rows.cuh"
#include "softmax/online_softmax.cuh"

constexpr int PROB_EXPONENT = 4;
constexpr float E4M3_MAX = 448.f;
// Whether rows of S are brought to units of Q K^T first; otherwise the row's power of two is a factor of the exponent.
// Biases and hooks take such units. A bias is never in the accumulator, whose sums of 8-bit products have few bits.
constexpr bool UNSCALE_ROWS = SCALE_LOGITS || BIAS_IN_ACCUMULATOR || BIAS_AFFINE || BIAS_TENSOR_ROWS;
// Whether every tile's row max is searched for: where hooks are shown it, or where a row's bits depend on no other row.
constexpr bool SEARCH_EVERY_TILE = RESCALE_THRESHOLD == 0.f;
static_assert(!Variant::HAS_WEIGHT && !STATIC_MAX && ROW_BLOCKS == 1, "a softmax with a running max");

// A warpgroup's tile, and what its logits need to become probabilities.
struct SoftmaxTile {
  const ScoreTile& tile;
  const ScoreMask& mask;
  bool masked;
  const Bias& bias;
  const WarpgroupQ& q;

  // S in the units of row_max.
  void finish_scores(ScoreFragment& s) const {
    if constexpr (UNSCALE_ROWS)
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[0][n][e] *= q.inverse[e / 2];
    transform_scores(s, tile, 0, TILE_KEYS / 16);
    if constexpr (BIAS_IN_ACCUMULATOR) {
      float unit = 1.f / tile.unit;
      for_each_score(s, tile, 0, TILE_KEYS / 8, [&](float& x, const LogitIndex& at, bool, int) {
        x += scaled(tile.variant.logits_bias(at), unit);
      });
    }
    bias.add(s);
    bias.add_slopes(s);
    if (masked) mask.apply(s, tile);
  }
};

// O of the warpgroup's rows, and the sums of P as it was rounded.
struct Outputs {
  float rounded_sum[ROWS_PER_THREAD] = {};
  SummedOutputs o;

  Outputs() {
#pragma unroll
    for (int d = 0; d <= SUM_BLOCK; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) o[d][e] = 0.f;
  }
  // Called after the wait for gemm_pv: takes the sums of a tile out of O. WGMMA keeps about 14 bits of a sum of 8-bit
  // products, too few for all keys.
  void arrived() {
    warpgroup_fence_operand(o);
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) rounded_sum[r] += o[SUM_BLOCK][2 * r];
#pragma unroll
    for (int e = 0; e < 4; ++e) clear_in_place(o[SUM_BLOCK][e]);
  }
  void rescale(const float (&factor)[ROWS_PER_THREAD]) {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) rounded_sum[r] *= factor[r];
#pragma unroll
    for (int d = 0; d < SUM_BLOCK; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) o[d][e] *= factor[e / 2];
  }
  const OutputFragment& fragment() const { return reinterpret_cast<const OutputFragment&>(o); }
};

// The interface of 16-bit products has it apart; here it is in the class below.
struct RowMaxState {
  RowMaxState(const Variant&, const QTile&) {}
};

// The softmax of the warpgroup's rows, with the interface of that of 16-bit products.
class WarpgroupSoftmax {
  // m - 4, of the row max in powers of two, rounded up; stale. UNSEEN while a row has seen no key: then P of masked
  // logits is 0, and that of others is infinite, so that the tile is repeated.
  float subtrahend_[ROWS_PER_THREAD];
  float row_sum_[ROWS_PER_THREAD];  // of P
  float scale_[ROWS_PER_THREAD];    // from units of S to powers of two
  static constexpr float UNSEEN = -1e30f;
  // The row max itself, where a hook is shown it.
  static constexpr bool KEEPS_MAX = Variant::HAS_OUTPUT_TRANSFORM;
  float row_max_[KEEPS_MAX ? ROWS_PER_THREAD : 1];

  // Searches for the row max of the tile. Returns whether the exponent of any row of the warp grows; then it rescales
  // row_sum, and O must be rescaled by `factor`.
  bool grow(const ScoreFragment& s, const Bias& bias, float (&factor)[ROWS_PER_THREAD]) {
    bool grown = false;
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      float x = NEG_INF;
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n) x = fmaxf(x, fmaxf(s[0][n][2 * r], s[0][n][2 * r + 1]));
      x = quad_max(x + bias.row_term(r));
      if constexpr (KEEPS_MAX) row_max_[r] = fmaxf(row_max_[r], x);
      float subtrahend = fmaxf(subtrahend_[r], ceilf(x * scale_[r]) - PROB_EXPONENT);
      factor[r] = exp2_approx(subtrahend_[r] - subtrahend);  // 0 for a row's first keys: O and row_sum are 0
      grown |= subtrahend != subtrahend_[r];
      subtrahend_[r] = subtrahend;
      row_sum_[r] *= factor[r];
    }
    return __any_sync(ALL_LANES, grown);
  }

  // P of a chunk of S, as an A operand; adds it to `sums`.
  void exponentiate(const ScoreFragment& s, const Bias& bias, int chunk, unsigned (&operand)[4],
                    float (&sums)[ROWS_PER_THREAD]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) {
        float p[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float x = s[0][4 * chunk + 2 * half + i / 2][2 * r + i % 2];
          // As a call of fmaf: of a product and a difference, NVVM keeps the products for the repetition, which spill.
          p[i] = exp2_approx(fmaf(x, scale_[r], bias.row_term(r) * scale_[r] - subtrahend_[r]));
          sums[r] += p[i];
        }
        // the keys of positions 4 t .. 4 t + 3 are 2 t and 2 t + 1 of both blocks of eight
        operand[2 * half + r] = pack4_e4m3(p[0], p[1], p[2], p[3]);
      }
  }

  // Finished S becomes P. Before it replaces that of the previous tile in `probs`, this calls `wait(sum)`, which waits
  // for gemm_pv of the previous tile, and depends on the sum. Returns whether O must be rescaled by `factor` before P V
  // is added. A single warp can repeat the tile, so that no warpgroup-wide instruction is in that part.
  template <bool FIRST, class Wait>
  bool exponentiate_tile(const ScoreFragment& s, const Bias& bias, ProbTile& probs, float (&factor)[ROWS_PER_THREAD],
                         Wait wait) {
    bool grown = false;
    if constexpr (FIRST || SEARCH_EVERY_TILE) grown = grow(s, bias, factor);
    float sums[ROWS_PER_THREAD] = {};
    unsigned early[PROB_CHUNKS][4];
#pragma unroll
    for (int chunk = 0; chunk < PROB_CHUNKS; ++chunk) exponentiate(s, bias, chunk, early[chunk], sums);
    wait(sums[0] + sums[1]);
#pragma unroll
    for (int chunk = 0; chunk < PROB_CHUNKS; ++chunk)
#pragma unroll
      for (int i = 0; i < 4; ++i) probs[chunk][i] = separate_register(early[chunk][i]);
    if constexpr (!FIRST && !SEARCH_EVERY_TILE)
      if (!__all_sync(ALL_LANES, sums[0] <= E4M3_MAX && sums[1] <= E4M3_MAX)) {  // also for NaN
        // many logits near m give such a sum, too: then no m grows, and P stays as it is
        grown = grow(s, bias, factor);
        if (grown) {
          sums[0] = sums[1] = 0.f;
#pragma unroll
          for (int chunk = 0; chunk < PROB_CHUNKS; ++chunk) exponentiate(s, bias, chunk, probs[chunk], sums);
        }
      }
    row_sum_[0] += sums[0];
    row_sum_[1] += sums[1];
    return grown;
  }

 public:
  SoftmaxState state;  // as the epilogue takes it

  WarpgroupSoftmax(const RowMaxState&, const WarpgroupQ& q, float unit) {
    float scale = score_scale_log2(unit);
    for (float& x : row_max_) x = NEG_INF;
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      subtrahend_[r] = UNSEEN;
      row_sum_[r] = 0.f;
      scale_[r] = UNSCALE_ROWS ? scale : scale * q.inverse[r];
    }
  }

  // S of the first tile becomes P; O is still 0.
  void first_step(ScoreFragment& s, float (&factor)[ROWS_PER_THREAD], ProbTile& probs, RowMaxState&,
                  const SoftmaxTile& tile) {
    tile.finish_scores(s);
    exponentiate_tile<true>(s, tile.bias, probs, factor, [](float) {});
  }
  // S of a later tile becomes P, and O is rescaled where it must be. No tile is skipped.
  template <class Wait>
  bool step(ScoreFragment& s, float (&factor)[ROWS_PER_THREAD], ProbTile& probs, Outputs& o, RowMaxState&,
            const SoftmaxTile& tile, float, Wait wait_gemm_pv) {
    tile.finish_scores(s);
    if (exponentiate_tile<false>(s, tile.bias, probs, factor, wait_gemm_pv)) o.rescale(factor);
    return false;
  }
  // Called after the last gemm_pv. `state` is relative to row_max, in units of Q K^T or of logits. O is divided by the
  // sums of rounded P. Log-sum-exps are of unrounded P, and so are the weights of partial states: O is rescaled by the
  // ratio of both, too.
  void finish(Outputs& o, const KernelParams& p, int kv_head) {
    // to powers of two; read again instead of kept in registers
    float scale = score_scale_log2(qk_scale(p, kv_head)), factor[ROWS_PER_THREAD];
    SoftmaxState finished;
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      factor[r] = 1.f / (1 << PROB_EXPONENT);
      bool seen = subtrahend_[r] > UNSEEN;
      finished.row_max[r] = seen ? (subtrahend_[r] + PROB_EXPONENT) / scale : NEG_INF;
      if constexpr (KEEPS_MAX) {
        if (seen) factor[r] = exp2_approx(subtrahend_[r] - row_max_[r] * scale_[r]);
        finished.row_max[r] = row_max_[r] * (scale_[r] / scale);
      }
      finished.row_sum[r] = row_sum_[r] * factor[r];
      float total = row_sum_[r];
      add_quad(total);
      if (o.rounded_sum[r] != 0.f) factor[r] *= total / o.rounded_sum[r];
    }
    state = finished;
    o.rescale(factor);
  }
};
