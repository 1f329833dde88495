// Static max: if a bound on the transformed logits proves that exp neither overflows nor underflows, the softmax is
// relative to 0 and needs no running row_max.
#pragma once
#include "softmax/score_element.cuh"
#include "softmax/units.cuh"

// Not available where hooks are shown the max or tiles are compared with it, nor for f16, whose exponent range is too
// small. The proof depends on the number of keys, and so on the other rows of a request.
constexpr bool STATIC_MAX = SM90_PREFILL && !ROW_INVARIANT && !SKIP_SOFTMAX && Variant::HAS_LOGITS_BOUND &&
                            !Variant::HAS_WEIGHT && !Variant::HAS_OUTPUT_TRANSFORM && SAME<PvElem, bf16>;

// row_sum stays within e^-64 .. e^64, and f32 reaches e^-87 .. e^88. The remaining range is for V, up to 10^10.
constexpr float MAX_LOG_SUM = 64.f;
// A row with a key has a larger row_sum, above e^-64. A row without one has only masked elements, for which
// `exp2_emulated` returns 2^-126 each.
constexpr float MIN_ROW_SUM = 1e-28f;

// Whether the logits of `kv_len` keys are bounded so; false if the bound is NaN.
inline bool use_static_max(const Variant& variant, int kv_len) {
  if constexpr (STATIC_MAX) return variant.logits_bound() + logf(static_cast<float>(kv_len)) < MAX_LOG_SUM;
  return false;
}
