// Rows as decode's hooks rewrite them: eight values a lane, four of each half of the row, so that the common rotation needs no other
// lane.
#pragma once
#include "ptx.cuh"
#include "rows.cuh"
#include "logit_elem.cuh"
#include "row_tile.cuh"

using HalvesRow = LaneRow<HEAD_DIM / 8, 8, true>;

// In shared memory: row `n` of a tile.
template <class E, int ROWS>
inline void load_halves(HalvesRow& row, RowTile<E, ROWS> tile, int n) {
  constexpr int HALF = HEAD_DIM / 2 * sizeof(E);
  int mine = HalvesRow::first() * sizeof(E);
  uint4 words;
  if constexpr (IS_FP8<E>) {
    unsigned low = load_shared_4(tile.at(n, mine)), high = load_shared_4(tile.at(n, mine + HALF));
    words = {fp8_to_f16<E>(low & 0xffff), fp8_to_f16<E>(low >> 16), fp8_to_f16<E>(high & 0xffff), fp8_to_f16<E>(high >> 16)};
    unpack<f16>(row, words);
  } else {
    uint2 low = load_shared_8(tile.at(n, mine)), high = load_shared_8(tile.at(n, mine + HALF));
    words = {low.x, low.y, high.x, high.y};
    unpack<E>(row, words);
  }
}

template <class E, int ROWS>
inline void store_halves(RowTile<E, ROWS> tile, int n, const HalvesRow& row) {
  constexpr int HALF = HEAD_DIM / 2 * sizeof(E);
  int mine = HalvesRow::first() * sizeof(E);
  uint4 words = pack_saturated<E>(row);
  store_shared_8(tile.at(n, mine), {words.x, words.y});
  store_shared_8(tile.at(n, mine + HALF), {words.z, words.w});
}
