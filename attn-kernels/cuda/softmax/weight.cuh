// From logits to weights: units, where running maxima start, and weights of a variant's own.
#pragma once

#include "arch/ptx.cuh"

constexpr float LOG2_E = 1.44269504088896340736f;
constexpr float LN_2 = 0.69314718055994530942f;
constexpr float NO_LOGIT = __builtin_bit_cast(float, 0xff800000u);  // -inf: the maximum of no logits at all

// Weights of the variant's own that follow a running maximum. Then everything is in natural units, as its hooks want it.
constexpr bool MAX_SCALED = Variant::HAS_WEIGHT && !Variant::PLAIN;
// The maximum of a row that has seen no key. Without a running maximum it stays 0.
constexpr float FIRST_MAX = Variant::PLAIN ? 0.f : MAX_SCALED ? Variant::MAX_FLOOR : NO_LOGIT;

// exp(logit - maximum), 0 for NO_LOGIT; `maximum` is NO_LOGIT only if all logits are, and then counts as 0 (inf - inf is NaN).
inline float exp_below(float logit, float maximum) {
  return exp2_approx((logit - (maximum == NO_LOGIT ? 0.f : maximum)) * LOG2_E);
}

// Where the keys of a row are provably an interval: a mask of two compares, the bounds being the same for the whole row.
inline bool in_bounds(Bounds bounds, int kv_pos) { return bounds.begin <= kv_pos && kv_pos < bounds.end; }

// Under MAX_SCALED: the weight of a logit, which enters the denominator as the variant says. Where the logit does not count,
// the hooks must not be believed: their answer for -inf need not be 0.
inline float take_weight(const Variant& variant, float logit, float maximum, const LogitIndex& at, bool counts, float& denominator) {
  if (Variant::STORES && !counts) return 0.f;
  float weight = variant.weight(logit, maximum, at);
  float share = Variant::HAS_DENOMINATOR ? variant.denominator(logit, maximum, weight, at) : weight;
  denominator += counts ? share : 0.f;
  return counts ? weight : 0.f;
}
