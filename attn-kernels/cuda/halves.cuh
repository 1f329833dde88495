// Rows as decode's hooks rewrite them: eight values a lane, four of each half of the row, so that the common rotation needs no other
// lane.
#pragma once
#include "ptx.cuh"
#include "rows.cuh"
#include "logit_elem.cuh"

using HalvesRow = LaneRow<HEAD_DIM / 8, 8, true>;

// In shared memory.
template <class E>
inline void load_halves(HalvesRow& row, unsigned shared) {
  constexpr int HALF = HEAD_DIM / 2 * sizeof(E);
  shared += HalvesRow::first() * sizeof(E);
  uint4 words;
  if constexpr (IS_FP8<E>) {
    unsigned low = load_shared_4(shared), high = load_shared_4(shared + HALF);
    words = {fp8_to_f16<E>(low & 0xffff), fp8_to_f16<E>(low >> 16), fp8_to_f16<E>(high & 0xffff), fp8_to_f16<E>(high >> 16)};
    unpack<f16>(row, words);
  } else {
    uint2 low = load_shared_8(shared), high = load_shared_8(shared + HALF);
    words = {low.x, low.y, high.x, high.y};
    unpack<E>(row, words);
  }
}

template <class E>
inline void store_halves(unsigned shared, const HalvesRow& row) {
  constexpr int HALF = HEAD_DIM / 2 * sizeof(E);
  shared += HalvesRow::first() * sizeof(E);
  uint4 words = pack_saturated<E>(row);
  store_shared_8(shared, {words.x, words.y});
  store_shared_8(shared + HALF, {words.z, words.w});
}
