// The unit of P over rows of KV formats.
#pragma once
#include "decode/linear_codes.cuh"
#include "decode/swap_ab_layout.cuh"
#include "softmax/units.cuh"

// Whether P has no bound. The P of a softmax is at most 2^RESCALE_THRESHOLD.
constexpr bool FREE_WEIGHTS = Variant::PLAIN || CUSTOM_WEIGHT;
// Whether P is measured in a ValueUnit.
constexpr bool HAS_VALUE_UNIT = FREE_WEIGHTS || (LINEAR_VALUES && !SCALE_VALUE_CODES);

// The range of P times the scales of V, which is rounded to f16. So it is measured in a unit: a power of two that is
// not below the largest scale that the warp has seen, or the largest product where weights are free.
class ValueUnit {
  static constexpr float HEADROOM = FREE_WEIGHTS ? 0x1p14f : 0x1p7f;

  float inverse_ = 0x1p100f;  // of the unit, which leaves HEADROOM above the largest one

 public:
  float unit() const { return HAS_VALUE_UNIT ? 1.f / inverse_ : 1.f; }

  // What P of a block of keys is multiplied by, so that f16 holds it times the scales of V, of which `largest` is this
  // lane's largest. Where the unit grows, `rescale` multiplies all sums so far. A warp-wide call.
  template <class Block, class Rescale>
  float inverse_for(const Block& p, float largest, Rescale rescale) {
    if constexpr (!HAS_VALUE_UNIT) return 1.f;
    if constexpr (FREE_WEIGHTS) largest *= largest_weight(p);
    if (__any_sync(ALL_LANES, largest * inverse_ > HEADROOM)) rescale(grow(largest));
    return inverse_;
  }

 private:
  // Takes in the largest scale or product of all lanes. Returns the factor of all sums so far.
  float grow(float largest) {
    largest = max_across<1>(largest);
    float before = inverse_;
    largest = fminf(fmaxf(largest, 0x1p-100f), 0x1p119f);  // so that the unit can be inverted
    inverse_ = HEADROOM / __uint_as_float((__float_as_uint(largest) & 0x7f800000) + 0x00800000);  // a power of two
    return inverse_ / before;
  }

  // The largest finite |P| that this lane holds of a block of keys. Others reach the sums of their own rows anyway.
  template <class Block>
  static float largest_weight(const Block& p) {
    float largest = 0.f;
#pragma unroll
    for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float x = fabsf(p[n][i]);
        if (x < -NEG_INF) largest = fmaxf(largest, x);
      }
    return largest;
  }
};
