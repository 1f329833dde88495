// From logits to weights: exp, the initial row_max, and the weight hooks of a variant (its own function in place of
// exp).
#pragma once

#include "arch/ptx.cuh"

constexpr float LOG2_E = 1.44269504088896340736f;
constexpr float LN_2 = 0.69314718055994530942f;
constexpr float NEG_INF = __builtin_bit_cast(float, 0xff800000u);  // -inf: the max of no logits

// The variant has its own weight function that takes a running max. Then S and row_max are in natural units, as its
// hooks take them.
constexpr bool CUSTOM_WEIGHT = Variant::HAS_WEIGHT && !Variant::PLAIN;
// row_max of a row that has seen no key. Without a running max (PLAIN) it stays 0.
constexpr float INITIAL_MAX = Variant::PLAIN ? 0.f : CUSTOM_WEIGHT ? Variant::MAX_FLOOR : NEG_INF;

// exp(logit - maximum); 0 for NEG_INF. If `maximum` is NEG_INF, so are all logits, and 0 is subtracted instead (inf -
// inf is NaN).
inline float exp_relative_to(float logit, float maximum) {
  return exp2_approx((logit - (maximum == NEG_INF ? 0.f : maximum)) * LOG2_E);
}

// Interval mask: two compares, with bounds that are the same for the whole row.
inline bool in_bounds(Bounds bounds, int kv_pos) { return bounds.begin <= kv_pos && kv_pos < bounds.end; }

// CUSTOM_WEIGHT: the weight of a logit; adds the share that the variant defines to the denominator. For a masked logit
// the result is forced to 0, since hooks need not return 0 for -inf.
inline float apply_weight(const Variant& variant, float logit, float maximum, const LogitIndex& at, bool counts,
                          float& denominator) {
  if (Variant::STORES && !counts) return 0.f;
  float weight = variant.weight(logit, maximum, at);
  float share = Variant::HAS_DENOMINATOR ? variant.denominator(logit, maximum, weight, at) : weight;
  denominator += counts ? share : 0.f;
  return counts ? weight : 0.f;
}
