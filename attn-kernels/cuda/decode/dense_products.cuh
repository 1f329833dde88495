// The products of decode over dense rows. decode/format_products.cuh takes its place over rows of KV formats.
#pragma once
#include "decode/fragment_products.cuh"

// P is in units of 1: it is at most 2^RESCALE_THRESHOLD, or saturated.
struct WeightUnit {
  template <class Block, class Rescale>
  static float inverse_for(const Block&, float, Rescale) {
    return 1.f;
  }
  static float unit() { return 1.f; }
};

using KeyProduct = KeyMma<KeyFragments<KeyElem>>;
using ValueProduct = ValueMma<ValueFragments<ValueElem>, WeightUnit>;
