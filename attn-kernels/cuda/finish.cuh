// From the running state of a row to its final scale and log-sum-exp: the scalar algebra that prefill, decode and merge share.
#pragma once

#include "ptx.cuh"

constexpr float LOG2_E = 1.44269504088896340736f;
constexpr float LN_2 = 0.69314718055994530942f;
constexpr float NO_LOGIT = __builtin_bit_cast(float, 0xff800000u);  // -inf: the maximum of no logits at all

// exp(logit - maximum), 0 for NO_LOGIT; `maximum` is NO_LOGIT only if all logits are, and then counts as 0 (inf - inf is NaN).
inline float exp_below(float logit, float maximum) {
  return exp2_approx((logit - (maximum == NO_LOGIT ? 0.f : maximum)) * LOG2_E);
}

struct FinishedRow {
  float scale;     // what the unnormalised output row is multiplied by
  RowState state;  // as output_transform sees it; state.lse is the log-sum-exp to store
};

// `row_max`, `denominator`: the state of the whole row in natural units, all of its parts merged, no sink yet.
template <class V> FinishedRow finish_row(const V& variant, float row_max, float denominator, RowIndex at) {
  if constexpr (V::PLAIN) {
    bool none = denominator == 0.f;
    float scale = !V::PLAIN_DIVIDE ? 1.f : none ? 0.f : 1.f / denominator;
    return {scale, {0.f, denominator, none ? NO_LOGIT : logf(denominator)}};
  } else {
    float rescale = 1.f;
    if constexpr (V::HAS_SINK) {
      // A key without a value: it enters the maximum and the denominator, never the output.
      float sink = variant.sink_logit(at);
      float maximum = fmaxf(row_max, sink);
      rescale = exp_below(row_max, maximum);
      denominator = denominator * rescale + exp_below(sink, maximum);
      row_max = maximum;
    }
    if (row_max == NO_LOGIT) return {0.f, {NO_LOGIT, 0.f, NO_LOGIT}};
    return {rescale / denominator, {row_max, denominator, row_max + logf(denominator)}};
  }
}
