// Lazily scaled numbers: a constant factor is folded into their scale once per tile instead of once per logit. They
// convert to float implicitly. Host code rounds as Rust does; a kernel may differ by a few units in the last place.
#pragma once

#include "lang/math.cuh"

// An unscaled logit: the MMA gives q . k, hooks expect sm_scale * q . k.
struct Logit {
  float product, scale;

  ATTN_FN Logit(float logit) : product(logit), scale(1.f) {}
  ATTN_FN Logit(float product, float scale) : product(product), scale(scale) {}
  ATTN_FN operator float() const { return product * scale; }
};

ATTN_FN float operator*(Logit logit, float factor) { return logit.product * (logit.scale * factor); }
ATTN_FN float operator*(float factor, Logit logit) { return logit * factor; }
ATTN_FN float operator/(Logit logit, float by) {
#ifdef ATTN_HOST
  return float(logit) / by;
#else
  return logit.product * (logit.scale / by);
#endif
}

// A key position minus an integer, split in two: `from` is the same for a whole tile of keys, `step` is a compile-time
// constant. So no logit needs an int-to-float conversion; a scaled distance costs one FMA. Factors must be finite.
struct KeyDistance {
  float from, step;

  ATTN_FN operator float() const { return from + step; }
  ATTN_FN KeyDistance operator-() const { return {-from, -step}; }
};

// A factor times a distance.
struct KeyTerm {
  float from, factor, step;

  ATTN_FN KeyTerm(float factor, KeyDistance distance) : KeyTerm(factor * distance.from, factor, distance.step) {}
  ATTN_FN KeyTerm(float from, float factor, float step) : from(from), factor(factor), step(step) {}
  ATTN_FN operator float() const {
#ifdef ATTN_HOST
    return from;  // on the host a distance has no step
#else
    return fmaf(factor, step, from);
#endif
  }
  ATTN_FN KeyTerm operator-() const { return {-from, -factor, step}; }
};

ATTN_FN float operator*(float factor, KeyDistance distance) { return KeyTerm(factor, distance); }
ATTN_FN float operator*(KeyDistance distance, float factor) { return KeyTerm(factor, distance); }

// A bias term multiplied by a change of scale.
ATTN_FN float scaled(float term, float by) { return term * by; }
ATTN_FN float scaled(KeyTerm term, float by) { return KeyTerm(term.from * by, term.factor * by, term.step); }
