// The variant's arithmetic on a tile of logits: transform, weights, and the running state of the rows.
#pragma once
#include "softmax/bias.cuh"
#include "softmax/finalize.cuh"
#include "softmax/static_max.cuh"
#include "softmax/mask.cuh"
#include "softmax/units.cuh"
#include "memory/kv_scales.cuh"

// Where a transform of every logit keeps the unit for special functions busy, of three warpgroups, one exponential in eight leaves it to that. Two leave it time enough, and
// more instructions take more power.
constexpr bool EXP2_SHARED = IN_WARPGROUPS && WARPS > 8 && SCALE_LOGITS && Variant::TRANSFORM_IS_SPECIAL && SAME<WeightElem, bf16>;

// Running state of this thread's rows. Sums are this thread's share of the columns until the end.
struct RowStates {
  float max[ROWS_PER_THREAD];  // in units of the logits at hand: unscaled unless the variant is shown logits
  float sum[ROWS_PER_THREAD];

  RowStates() {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      max[r] = FIRST_MAX;
      sum[r] = 0.f;
    }
  }
  explicit RowStates(bool max_is_fixed) : RowStates() {
    if (max_is_fixed)
#pragma unroll
      for (float& x : max) x = 0.f;
  }

  RowStates without_sums() const {
    RowStates rows = *this;
#pragma unroll
    for (float& x : rows.sum) x = 0.f;
    return rows;
  }
};

// From the units of `RowStates::max` to natural units, and to those of the exponent. `logit`: what makes a product a logit.
inline float natural_unit(float logit) { return SCALE_LOGITS ? 1.f : logit; }
inline float exponent_unit(float logit) { return natural_unit(logit) * LOG2_E; }

// What the products of queries and keys are added to.
inline void start_logits(Logits& s, const LogitTile& tile) {
  if constexpr (BIAS_FIRST) {
    float unit = 1.f / tile.unit;
    for_each_logit(s, tile, 0, TILE_KEYS / 8,
                   [&](float& x, const LogitIndex& at, bool, int) { x = scaled(tile.variant.logits_bias(at), unit); });
  } else {
    clear(s);
  }
}

// Everything before the weights: scale and transform, weights without a running maximum. Of the keys from 16 * `first` to before
// 16 * `end`.
inline void transform_logits(Logits& s, const LogitTile& tile, int first, int end) {
  const Variant& variant = tile.variant;
  if constexpr (SCALE_LOGITS)
    for_each_logit(s, tile, 2 * first, 2 * end, [&](float& x, const LogitIndex& at, bool real_row, int) {
      if (Variant::STORES && !(real_row && tile.exists(at.kv_pos))) return;
      if constexpr (Variant::HAS_LOGITS_TRANSFORM)
        x = variant.logits_transform(Logit(x, tile.unit), at);
      else
        x *= tile.unit;
      if constexpr (Variant::PLAIN) x = variant.weight(x, 0.f, at);
    });
}

// The maxima of rows with the tile's logits, and whether one of the warp's has grown so much that sums are to be made relative to it.
template <class B>
inline bool maximum_grows(float (&tile_max)[ROWS_PER_THREAD], const Logits& s, const RowStates& rows, float scale, const B* biases) {
  bool grown = false;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    float x = B::OF_ROWS ? NO_LOGIT : rows.max[r];
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 8; ++n) x = fmaxf(x, fmaxf(s[r / 2][n][r % 2 * 2], s[r / 2][n][r % 2 * 2 + 1]));
    if constexpr (B::OF_ROWS) x = fmaxf(x + biases->of(r), rows.max[r]);
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
    tile_max[r] = x;
    grown |= (x - rows.max[r]) * scale > RESCALE_SLACK;  // NaN, hence false, while a row has seen no key
  }
  return __any_sync(ALL_LANES, grown);
}

// Takes the tile's logits into the running maximum. Whether that has grown, for a row of the warp: then `multiply(r, factor)` is told, of each, what sums relative to the
// old one are to be multiplied by; `rows.sum` is.
template <class B, class Multiply>
inline bool follow_maximum(RowStates& rows, const Logits& s, float scale, const B* biases, Multiply multiply) {
  float tile_max[ROWS_PER_THREAD];
  if (!maximum_grows(tile_max, s, rows, scale, biases)) return false;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    float factor = tile_max[r] == rows.max[r] ? 1.f : exp2_approx((rows.max[r] - tile_max[r]) * scale);
    rows.max[r] = tile_max[r];
    rows.sum[r] *= factor;
    multiply(r, factor);
  }
  return true;
}
inline void multiply_row(Outputs& o, int r, float factor) {
#pragma unroll
  for (int d = 0; d < COLUMNS / 8; ++d) {
    o[r / 2][d][r % 2 * 2] *= factor;
    o[r / 2][d][r % 2 * 2 + 1] *= factor;
  }
}

// What the logits of each row are relative to: 0 while all of a row is masked, so that weights are 0 and not NaN. In units of
// the exponent, but under MAX_SCALED as the hooks want it.
struct RowShifts {
  float of[ROWS_PER_THREAD];

  RowShifts(const RowStates& rows, float scale) {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) of[r] = rows.max[r] == NO_LOGIT ? 0.f : MAX_SCALED ? rows.max[r] : rows.max[r] * scale;
  }
  // Of a logit in this thread's row `r`.
  float at(int r, int) const { return of[r]; }
};

// Logits of the n-th 16 keys become weights, in place, and enter the rows' sums.
template <class Shifts>
inline void weigh_logits(Logits& s, RowStates& rows, const LogitTile& tile, const Shifts& shift, float scale, int n) {
  if constexpr (MAX_SCALED) {
    for_each_logit(s, tile, 2 * n, 2 * n + 2, [&](float& x, const LogitIndex& at, bool real_row, int r) {
      bool counts = __float_as_uint(x) != MASKED_BITS && (!Variant::STORES || real_row);
      x = take_weight(tile.variant, x, shift.of[r], at, counts, rows.sum[r]);
    });
  } else {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
#pragma unroll
      for (int i = 2 * n; i < 2 * n + 2; ++i) {
        float& x = s[r / 2][i][r % 2 * 2];
        float& y = s[r / 2][i][r % 2 * 2 + 1];
        if constexpr (!Variant::PLAIN) {
          x = exp2_approx(x * scale - shift.at(r, 8 * i));
          float exponent = y * scale - shift.at(r, 8 * i + 1);
          y = EXP2_SHARED && i % 4 == 1 ? exp2_by_fma(exponent) : exp2_approx(exponent);
        }
        rows.sum[r] += x + y;
        // Plain weights have no maximum that keeps them at 1: beyond what f16 holds they are its largest value, not infinite.
        if constexpr (Variant::PLAIN && SAME<WeightElem, f16>) {
          x = saturate_f16(x);
          y = saturate_f16(y);
        }
      }
    }
  }
}

// The same, and as an operand.
inline void weigh(Weights& w, Logits& s, RowStates& rows, const LogitTile& tile, const RowShifts& shift, float scale, int n) {
  weigh_logits(s, rows, tile, shift, scale, n);
  pack_weights(w, s, n);
}
