// Numbers that are not finished yet: a factor that they meet is taken in where it costs nothing, once a tile instead of once a
// logit. They become floats by themselves. Host text rounds as Rust does; a kernel may be a few units in the last place away.
#pragma once

#include "lang/math.cuh"

// A logit that is still to be scaled: tensor cores leave q . k, hooks want sm_scale * q . k.
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

// The position of a key less something: `from` is the same for a whole tile of keys, `step` a constant of the text. So there is
// no conversion once a logit, and one multiplication and addition. A factor has to be finite.
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
    return from;  // there a distance has no step
#else
    return fmaf(factor, step, from);
#endif
  }
  ATTN_FN KeyTerm operator-() const { return {-from, -factor, step}; }
};

ATTN_FN float operator*(float factor, KeyDistance distance) { return KeyTerm(factor, distance); }
ATTN_FN float operator*(KeyDistance distance, float factor) { return KeyTerm(factor, distance); }

// Terms in other units.
ATTN_FN float scaled(float term, float by) { return term * by; }
ATTN_FN float scaled(KeyTerm term, float by) { return KeyTerm(term.from * by, term.factor * by, term.step); }
