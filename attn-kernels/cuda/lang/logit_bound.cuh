// Interval arithmetic on floats, which bounds logits for the static max. attn-macros/codegen/src/emit/logits_bound.rs
// emits `logits_bound` in terms of these functions.
//
// An interval contains every result except NaN. An unknown end is infinite. A NaN end, which a parameter may cause,
// makes every derived bound NaN, so a bound that compares below some number is proven. Bounds are rounded like results:
// they hold up to a few units in the last place.
#pragma once

#include "lang/float_fn.cuh"
#include "lang/number_fn.cuh"

namespace lang {
namespace bound {

struct FloatInterval {
  float lo, hi;
};

ATTN_FN float least(float a, float b) { return is_nan(a) || a < b ? a : b; }
ATTN_FN float most(float a, float b) { return is_nan(a) || a > b ? a : b; }

ATTN_FN FloatInterval any() { return {-F32_INFINITY, F32_INFINITY}; }
ATTN_FN FloatInterval exactly(float x) { return {x, x}; }
ATTN_FN FloatInterval within(float size) { return {-size, size}; }
ATTN_FN FloatInterval join(FloatInterval a, FloatInterval b) { return {least(a.lo, b.lo), most(a.hi, b.hi)}; }

ATTN_FN FloatInterval neg(FloatInterval a) { return {-a.hi, -a.lo}; }
ATTN_FN FloatInterval abs(FloatInterval a) { return {0.f, most(-a.lo, a.hi)}; }
ATTN_FN FloatInterval add(FloatInterval a, FloatInterval b) { return {a.lo + b.lo, a.hi + b.hi}; }
ATTN_FN FloatInterval mul(FloatInterval a, FloatInterval b) {
  float p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
  return {least(least(p, q), least(r, s)), most(most(p, q), most(r, s))};
}
// Nothing is known of the reciprocal of a number that may be 0.
ATTN_FN FloatInterval recip(FloatInterval a) {
  return a.lo > 0.f ? FloatInterval{0.f, 1.f / a.lo} : FloatInterval{F32_NAN, F32_NAN};
}
ATTN_FN FloatInterval exp(FloatInterval a) { return {0.f, lang::exp(a.hi)}; }
ATTN_FN FloatInterval exp2(FloatInterval a) { return {0.f, lang::exp2(a.hi)}; }

// min and max return the other operand if one is NaN. So only an operand that is never NaN (`number`) bounds the
// result.
ATTN_FN FloatInterval at_most(FloatInterval a, FloatInterval number) { return {least(a.lo, number.lo), number.hi}; }
ATTN_FN FloatInterval at_least(FloatInterval a, FloatInterval number) { return {number.lo, most(a.hi, number.hi)}; }

ATTN_FN float magnitude(FloatInterval a) { return most(-a.lo, a.hi); }

}  // namespace bound
}  // namespace lang
