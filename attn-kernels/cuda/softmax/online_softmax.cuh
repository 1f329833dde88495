// Online softmax of a tile in registers: S = Q K^T is scaled and transformed, row_max is updated, S becomes P = exp(S -
// row_max), and row_sum accumulates P. Both prefill mainloops use it.
#pragma once
#include "softmax/bias.cuh"
#include "softmax/finalize.cuh"
#include "softmax/static_max.cuh"
#include "softmax/mask.cuh"
#include "softmax/units.cuh"
#include "memory/kv_scales.cuh"

// exp2 emulation for one exponential in eight (FlashAttention-4): where a logits transform already keeps the special
// function unit busy and three consumer warpgroups share it. With two warpgroups the unit keeps up, and the extra
// instructions cost power.
constexpr bool EMULATE_EXP2 =
    SM90_PREFILL && (WARPS > 8) && SCALE_LOGITS && Variant::TRANSFORM_IS_SPECIAL && SAME<PvElem, bf16>;

// Softmax state of this thread's rows. row_sum is this thread's share of the columns; the epilogue reduces it over the
// quad.
struct SoftmaxState {
  float row_max[ROWS_PER_THREAD];  // in units of S: unscaled unless SCALE_LOGITS
  float row_sum[ROWS_PER_THREAD];

  SoftmaxState() {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      row_max[r] = INITIAL_MAX;
      row_sum[r] = 0.f;
    }
  }
  explicit SoftmaxState(bool is_static) : SoftmaxState() {
    if (is_static)
#pragma unroll
      for (float& x : row_max) x = 0.f;
  }

  SoftmaxState with_zero_sums() const {
    SoftmaxState copy = *this;
#pragma unroll
    for (float& x : copy.row_sum) x = 0.f;
    return copy;
  }
};

// Factors from the units of `row_max` to natural units, and to the exponent of exp2. `unit`: the factor from Q K^T to
// a logit.
inline float score_scale(float unit) { return SCALE_LOGITS ? 1.f : unit; }
inline float score_scale_log2(float unit) { return score_scale(unit) * LOG2_E; }

// Initialises the accumulator of gemm_qk: with the bias (BIAS_IN_ACCUMULATOR), or with 0.
inline void init_scores(ScoreFragment& s, const ScoreTile& tile) {
  if constexpr (BIAS_IN_ACCUMULATOR) {
    float unit = 1.f / tile.unit;
    for_each_score(s, tile, 0, TILE_KEYS / 8,
                   [&](float& x, const LogitIndex& at, bool, int) { x = scaled(tile.variant.logits_bias(at), unit); });
  } else {
    clear(s);
  }
}

// Scales and transforms S, and applies a plain weight (one without a running max), for the keys from 16 * `first` to 16
// * `end`.
inline void transform_scores(ScoreFragment& s, const ScoreTile& tile, int first, int end) {
  const Variant& variant = tile.variant;
  if constexpr (SCALE_LOGITS)
    for_each_score(s, tile, 2 * first, 2 * end, [&](float& x, const LogitIndex& at, bool real_row, int) {
      if (Variant::STORES && !(real_row && tile.exists(at.kv_pos))) return;
      if constexpr (Variant::HAS_LOGITS_TRANSFORM)
        x = variant.logits_transform(Logit(x, tile.unit), at);
      else
        x *= tile.unit;
      if constexpr (Variant::PLAIN) x = variant.weight(x, 0.f, at);
    });
}

// The largest of `x` and this thread's elements of its row `r`.
inline float lane_max(const ScoreFragment& s, int r, float x) {
#pragma unroll
  for (int n = 0; n < TILE_KEYS / 8; ++n) x = fmaxf(x, fmaxf(s[r / 2][n][r % 2 * 2], s[r / 2][n][r % 2 * 2 + 1]));
  return x;
}

// Computes the row max including this tile. Returns whether any row of the warp exceeds its old max by more than
// RESCALE_THRESHOLD.
template <class B>
inline bool row_max_grows(float (&tile_max)[ROWS_PER_THREAD], const ScoreFragment& s, const SoftmaxState& softmax,
                          float scale, const B* bias) {
  bool grown = false;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    // from NEG_INF where skips_tile has computed it so
    float x = lane_max(s, r, B::HAS_ROW_TERM || SKIP_SOFTMAX ? NEG_INF : softmax.row_max[r]);
    if constexpr (B::HAS_ROW_TERM) x += bias->row_term(r);
    if constexpr (B::HAS_ROW_TERM || SKIP_SOFTMAX) x = fmaxf(x, softmax.row_max[r]);
    tile_max[r] = x = quad_max(x);
    grown |= (x - softmax.row_max[r]) * scale > RESCALE_THRESHOLD;  // false (NaN) while a row has seen no key
  }
  return __any_sync(ALL_LANES, grown);
}

// Updates row_max with the tile. If any row of the warp needs rescaling, rescales row_sum, calls `rescale(r, factor)`
// for each row so that the caller rescales O, and returns true.
template <class B, class Rescale>
inline bool update_row_max(SoftmaxState& softmax, const ScoreFragment& s, float scale, const B* bias, Rescale rescale) {
  float tile_max[ROWS_PER_THREAD];
  if (!row_max_grows(tile_max, s, softmax, scale, bias)) return false;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    float factor = tile_max[r] == softmax.row_max[r] ? 1.f : exp2_approx((softmax.row_max[r] - tile_max[r]) * scale);
    softmax.row_max[r] = tile_max[r];
    softmax.row_sum[r] *= factor;
    rescale(r, factor);
  }
  return true;
}
inline void rescale_o(OutputFragment& o, int r, float factor) {
#pragma unroll
  for (int d = 0; d < COLUMNS / 8; ++d) {
    o[r / 2][d][r % 2 * 2] *= factor;
    o[r / 2][d][r % 2 * 2 + 1] *= factor;
  }
}

// The subtrahend of the exponent: row_max * scale, or 0 while all of a row is masked, so that P is 0 and not NaN. With
// a custom weight it is in natural units, as the hooks take it.
struct ScaledRowMax {
  float value[ROWS_PER_THREAD];

  ScaledRowMax(const SoftmaxState& softmax, float scale) {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r)
      value[r] = softmax.row_max[r] == NEG_INF ? 0.f : CUSTOM_WEIGHT ? softmax.row_max[r] : softmax.row_max[r] * scale;
  }
  // For an element of this thread's row `r`.
  float at(int r, int) const { return value[r]; }
};

// S becomes P in place for the n-th 16 keys, and row_sum accumulates it.
template <class RowMaxT>
inline void scores_to_probs(ScoreFragment& s, SoftmaxState& softmax, const ScoreTile& tile, const RowMaxT& scaled_max,
                            float scale, int n) {
  if constexpr (CUSTOM_WEIGHT) {
    for_each_score(s, tile, 2 * n, 2 * n + 2, [&](float& x, const LogitIndex& at, bool real_row, int r) {
      bool counts = __float_as_uint(x) != MASKED_BITS && (!Variant::STORES || real_row);
      x = apply_weight(tile.variant, x, scaled_max.value[r], at, counts, softmax.row_sum[r]);
    });
  } else {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
#pragma unroll
      for (int i = 2 * n; i < 2 * n + 2; ++i) {
        float& x = s[r / 2][i][r % 2 * 2];
        float& y = s[r / 2][i][r % 2 * 2 + 1];
        if constexpr (!Variant::PLAIN) {
          x = exp2_approx(x * scale - scaled_max.at(r, 8 * i));
          float exponent = y * scale - scaled_max.at(r, 8 * i + 1);
          y = EMULATE_EXP2 && i % 4 == 1 ? exp2_emulated(exponent) : exp2_approx(exponent);
        }
        softmax.row_sum[r] += x + y;
        // A plain weight has no max that bounds it by 1: values beyond the range of f16 saturate instead of becoming
        // infinite.
        if constexpr (Variant::PLAIN && SAME<PvElem, f16>) {
          x = saturate_f16(x);
          y = saturate_f16(y);
        }
      }
    }
  }
}

// As above, and packs P into an A operand of gemm_pv.
inline void scores_to_packed_probs(ProbFragment& probs, ScoreFragment& s, SoftmaxState& softmax, const ScoreTile& tile,
                                   const ScaledRowMax& scaled_max, float scale, int n) {
  scores_to_probs(s, softmax, tile, scaled_max, scale, n);
  pack_probs(probs, s, n);
}
