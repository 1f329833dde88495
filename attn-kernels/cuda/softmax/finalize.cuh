// From the running state of a row to its final scale and log-sum-exp: the scalar algebra that prefill, decode and merge share.
#pragma once

#include "abi/kernel_params.cuh"
#include "softmax/weight.cuh"

struct FinishedRow {
  float scale;     // what the unnormalised output row is multiplied by
  RowState state;  // as output_transform sees it; state.lse is the log-sum-exp to store
};

// A key without a value: it enters the maximum and the denominator, never the output. Gives what the output is multiplied by.
inline float take_sink(const Variant& variant, float& row_max, float& denominator, const RowIndex& at) {
  float sink = variant.sink_logit(at);
  float maximum = fmaxf(row_max, sink);
  float rescale = exp_below(row_max, maximum);
  denominator *= rescale;
  if constexpr (MAX_SCALED) {
    LogitIndex nowhere;
    static_cast<RowIndex&>(nowhere) = at;
    nowhere.kv_pos = nowhere.kv_token = -1;
    take_weight(variant, sink, maximum, nowhere, sink != NO_LOGIT, denominator);
  } else {
    denominator += exp_below(sink, maximum);
  }
  row_max = maximum;
  return rescale;
}

// `row_max`, `denominator`: the state of the whole row in natural units, all of its parts merged, no sink yet.
inline FinishedRow finish_row(const KernelParams& p, const Variant& variant, float row_max, float denominator, const RowIndex& at) {
  if constexpr (Variant::PLAIN) {
    return {!Variant::PLAIN_DIVIDE ? 1.f : denominator == 0.f ? 0.f : 1.f / denominator,
            {0.f, denominator, denominator > 0.f ? logf(denominator) : NO_LOGIT}};
  } else {
    float rescale = 1.f;
    if constexpr (Variant::HAS_SINK)
      if (!p.unfinished) rescale = take_sink(variant, row_max, denominator, at);
    // Under MAX_SCALED the maximum does not tell whether there was a key.
    if (MAX_SCALED ? denominator == 0.f : row_max == NO_LOGIT) return {0.f, {NO_LOGIT, 0.f, NO_LOGIT}};
    // Relative to a maximum, the sum is about 1 or above, which the short ways take; a variant's own weights sum to anything.
    if constexpr (MAX_SCALED) return {rescale / denominator, {row_max, denominator, row_max + logf(denominator)}};
    return {rescale * reciprocal_approx(denominator), {row_max, denominator, row_max + LN_2 * log2_approx(denominator)}};
  }
}
