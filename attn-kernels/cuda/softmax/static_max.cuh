// Softmax relative to 0 instead of a running maximum: where transformed logits are proven to be small, no weight overflows, none vanishes, and nobody looks for the largest.
#pragma once
#include "softmax/score_element.cuh"
#include "softmax/units.cuh"

// Hooks are not shown a maximum that was not looked for; and f16 has not the exponents.
constexpr bool MAX_MAY_BE_FIXED = IN_WARPGROUPS && Variant::HAS_LOGITS_BOUND && !Variant::HAS_WEIGHT && !Variant::HAS_OUTPUT_TRANSFORM && SAME<WeightElem, bf16>;

// Sums of weights stay between e^-64 and e^64, floats of 32 bits between e^-87 and e^88: what is left is for values, up to 10^10.
constexpr float LARGEST_LOG_SUM = 64.f;
// A row with a key has a larger sum, above e^-64; one without has a smaller one, of masked logits alone, to which `exp2_by_fma` gives 2^-126 each.
constexpr float LEAST_SUM = 1e-28f;

// Whether logits of so many keys are that small; not where the bound is NaN.
inline bool max_is_fixed(const Variant& variant, int kv_len) {
  if constexpr (MAX_MAY_BE_FIXED) return variant.logits_bound() + logf(static_cast<float>(kv_len)) < LARGEST_LOG_SUM;
  return false;
}
