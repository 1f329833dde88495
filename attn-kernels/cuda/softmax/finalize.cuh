// Finalizes a row: from row_max and row_sum to the scale of O and the log-sum-exp. Prefill, decode and merge share it.
#pragma once

#include "abi/kernel_params.cuh"
#include "softmax/weight.cuh"

struct FinalizedRow {
  float scale;     // O of the row, unnormalised, is multiplied by this
  RowState state;  // as output_transform sees it; state.lse is the log-sum-exp to store
};

// Attention sink: a key without a value, which enters row_max and row_sum but not O. Returns the factor that rescales
// O.
inline float add_sink(const Variant& variant, float& row_max, float& row_sum, const RowIndex& at) {
  float sink = variant.sink_logit(at);
  float maximum = fmaxf(row_max, sink);
  float rescale = exp_relative_to(row_max, maximum);
  row_sum *= rescale;
  if constexpr (CUSTOM_WEIGHT) {
    LogitIndex nowhere;
    static_cast<RowIndex&>(nowhere) = at;
    nowhere.kv_pos = nowhere.kv_token = -1;
    apply_weight(variant, sink, maximum, nowhere, sink != NEG_INF, row_sum);
  } else {
    row_sum += exp_relative_to(sink, maximum);
  }
  row_max = maximum;
  return rescale;
}

// `row_max`, `row_sum`: of the whole row in natural units, after all partials are merged, before the sink.
inline FinalizedRow finalize_row(const KernelParams& p, const Variant& variant, float row_max, float row_sum,
                                 const RowIndex& at) {
  if constexpr (Variant::PLAIN) {
    return {!Variant::PLAIN_DIVIDE ? 1.f
            : row_sum == 0.f       ? 0.f
                                   : 1.f / row_sum,
            {0.f, row_sum, row_sum > 0.f ? logf(row_sum) : NEG_INF}};
  } else {
    float rescale = 1.f;
    if constexpr (Variant::HAS_SINK)
      if (!p.partial_output) rescale = add_sink(variant, row_max, row_sum, at);
    // With a custom weight, row_max does not tell whether the row has any key.
    if (CUSTOM_WEIGHT ? row_sum == 0.f : row_max == NEG_INF) return {0.f, {NEG_INF, 0.f, NEG_INF}};
    // Relative to a running max the sum is about 1 or more, where the approximate instructions are accurate. A custom
    // weight can sum to anything.
    if constexpr (CUSTOM_WEIGHT) return {rescale / row_sum, {row_max, row_sum, row_max + logf(row_sum)}};
    return {rescale * lang::reciprocal_estimate(row_sum), {row_max, row_sum, row_max + LN_2 * log2_approx(row_sum)}};
  }
}
