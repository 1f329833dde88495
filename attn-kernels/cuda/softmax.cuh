// The variant's arithmetic on a tile of logits: transform, mask, weights, and the running state of the rows.
#pragma once
#include "finish.cuh"
#include "fragments.cuh"

// Running state of this thread's rows. Sums are this thread's share of the columns until the end.
struct RowStates {
  float max[ROWS_PER_THREAD];  // in units of the logits at hand: before sm_scale unless the variant transforms them
  float sum[ROWS_PER_THREAD];
};

// A maximum that is a little stale only scales weights and their sum alike. So rows are rescaled not whenever their maximum
// grows, but when it has grown by a factor of 2^8 in weight; not so where a hook is shown the maximum.
constexpr float RESCALE_SLACK = Variant::HAS_OUTPUT_TRANSFORM ? 0.f : 8.f;

// From the units of `RowStates::max` to natural units.
inline float logit_unit(const KernelParams& p) {
  return Variant::HAS_LOGITS_TRANSFORM || Variant::PLAIN ? 1.f : p.sm_scale;
}

// f(logit, index word) for all of this thread's logits of the tile at `first_key`.
template <class F>
inline void for_each_logit(Logits& s, const KernelParams& p, const Request& request, int kv_head, int first_row, int first_key, F f) {
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    LogitIndex at;
    at.row = row_index(p, request, kv_head, first_row + fragment_row(r));
    const int key = first_key + fragment_column();
    const int token = request.kv_begin + key;
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        at.kv_pos = key + n * 8 + e;
        at.kv_token = token + n * 8 + e;
        f(s[r / 2][n][r % 2 * 2 + e], at);
      }
  }
}

// Softmax weights in place of logits.
inline void soften(Logits& s, Outputs& o, RowStates& rows, float scale_log2) {
  float tile_max[ROWS_PER_THREAD];
  bool grown = false;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    float x = rows.max[r];
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 8; ++n)
      x = fmaxf(x, fmaxf(s[r / 2][n][r % 2 * 2], s[r / 2][n][r % 2 * 2 + 1]));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
    tile_max[r] = x;
    grown |= (x - rows.max[r]) * scale_log2 > RESCALE_SLACK;  // NaN, while a row has seen no key: false
  }
  if (__any_sync(0xffffffffu, grown)) {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      const float factor = tile_max[r] == rows.max[r] ? 1.f : exp2_approx((rows.max[r] - tile_max[r]) * scale_log2);
      rows.max[r] = tile_max[r];
      rows.sum[r] *= factor;
#pragma unroll
      for (int d = 0; d < HEAD_DIM / 8; ++d) {
        o[r / 2][d][r % 2 * 2] *= factor;
        o[r / 2][d][r % 2 * 2 + 1] *= factor;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    const float shift = rows.max[r] == NO_LOGIT ? 0.f : rows.max[r] * scale_log2;  // all masked so far: weights 0, not NaN
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
      for (int e = r % 2 * 2; e < r % 2 * 2 + 2; ++e) {
        s[r / 2][n][e] = exp2_approx(s[r / 2][n][e] * scale_log2 - shift);
        rows.sum[r] += s[r / 2][n][e];
      }
  }
}

// Logits as the tensor cores left them become weights; the rows' state and outputs follow. `full`: no logit is masked.
inline void weigh(Logits& s, Outputs& o, RowStates& rows, const KernelParams& p, const Variant& variant, const Request& request,
                  int kv_head, int first_row, int first_key, int kv_end, bool full) {
  constexpr bool NATURAL = Variant::HAS_LOGITS_TRANSFORM || Variant::PLAIN;  // hooks want logits scaled
  if constexpr (NATURAL)
    for_each_logit(s, p, request, kv_head, first_row, first_key, [&](float& x, const LogitIndex& at) {
      x *= p.sm_scale;
      if constexpr (Variant::HAS_LOGITS_TRANSFORM) x = variant.logits_transform(x, at);
      if constexpr (Variant::PLAIN) x = variant.weight(x, 0.f, at);
    });
  if (!full)
    for_each_logit(s, p, request, kv_head, first_row, first_key, [&](float& x, const LogitIndex& at) {
      bool keep = at.kv_pos < kv_end;
      if constexpr (Variant::HAS_LOGITS_MASK) keep = keep && variant.logits_mask(at);
      x = keep ? x : Variant::PLAIN ? 0.f : NO_LOGIT;
    });
  if constexpr (Variant::PLAIN) {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r)
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n) rows.sum[r] += s[r / 2][n][r % 2 * 2] + s[r / 2][n][r % 2 * 2 + 1];
  } else {
    soften(s, o, rows, (NATURAL ? 1.f : p.sm_scale) * LOG2_E);
  }
}
