// Floats of which only bounds are known: `logits_bound` is made of them (attn-macros/codegen/src/emit/bound.rs).
//
// A value holds every result but NaN. What is not known is an infinite end; an end that is NaN, as a parameter may be, makes what is made of it NaN. So a bound that is
// below some number has been proven. Bounds are rounded as results are: they hold but for a few units in the last place.
#pragma once

#include "lang/float_fn.cuh"
#include "lang/number_fn.cuh"

namespace lang {
namespace bound {

struct Floats {
  float lo, hi;
};

ATTN_FN float least(float a, float b) { return is_nan(a) || a < b ? a : b; }
ATTN_FN float most(float a, float b) { return is_nan(a) || a > b ? a : b; }

ATTN_FN Floats any() { return {-F32_INFINITY, F32_INFINITY}; }
ATTN_FN Floats one(float x) { return {x, x}; }
ATTN_FN Floats within(float size) { return {-size, size}; }
ATTN_FN Floats either(Floats a, Floats b) { return {least(a.lo, b.lo), most(a.hi, b.hi)}; }

ATTN_FN Floats neg(Floats a) { return {-a.hi, -a.lo}; }
ATTN_FN Floats abs(Floats a) { return {0.f, most(-a.lo, a.hi)}; }
ATTN_FN Floats add(Floats a, Floats b) { return {a.lo + b.lo, a.hi + b.hi}; }
ATTN_FN Floats mul(Floats a, Floats b) {
  float p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
  return {least(least(p, q), least(r, s)), most(most(p, q), most(r, s))};
}
// Of what may be 0 nothing is known.
ATTN_FN Floats recip(Floats a) { return a.lo > 0.f ? Floats{0.f, 1.f / a.lo} : Floats{F32_NAN, F32_NAN}; }
ATTN_FN Floats exp(Floats a) { return {0.f, lang::exp(a.hi)}; }
ATTN_FN Floats exp2(Floats a) { return {0.f, lang::exp2(a.hi)}; }

// Where one operand is NaN the other one is the result: only one that is a number bounds what is below, or above.
ATTN_FN Floats at_most(Floats a, Floats number) { return {least(a.lo, number.lo), number.hi}; }
ATTN_FN Floats at_least(Floats a, Floats number) { return {number.lo, most(a.hi, number.hi)}; }

ATTN_FN float magnitude(Floats a) { return most(-a.lo, a.hi); }

}  // namespace bound
}  // namespace lang
