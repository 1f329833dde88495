// Moves rows between shared memory tiles and the registers of row hooks in decode. It widens FP8 elements to f16 and
// handles rows whose lanes hold two halves (`IN_HALVES`).
#pragma once
#include "arch/ptx.cuh"
#include "memory/row.cuh"
#include "softmax/score_element.cuh"
#include "memory/row_tile.cuh"

// Loads row `n` of a tile.
template <class Row, class E, int ROWS, int DIM>
inline void load_hook_row(Row& row, RowTile<E, ROWS, DIM> tile, int n) {
  using Wide = Choose<IS_FP8<E>, f16, E>;
  int first_byte = Row::first() * sizeof(E);
  if constexpr (sizeof(E) == 4) {
#pragma unroll
    for (int i = 0; i < Row::VALUES_OF_LANE; i += 4) {
      uint4 four = {};
      if (Row::holds(i)) four = load_shared_16(tile.at(n, Row::dim_of(i) * 4));
      row.set_four(i, floats_of(four));
    }
  } else if constexpr (Row::IN_HALVES) {
    constexpr int HALF = DIM / 2 * sizeof(E);
    auto four = [&](int byte) {
      if constexpr (IS_FP8<E>)
        return widened<E>(load_shared_4(tile.at(n, byte)));
      else
        return load_shared_8(tile.at(n, byte));
    };
    uint2 low = four(first_byte), high = four(first_byte + HALF);
    unpack<Wide>(row, {low.x, low.y, high.x, high.y});
  } else {
#pragma unroll
    for (int eight = 0; eight < Row::VALUES_OF_LANE / 8; ++eight) {
      unsigned from = tile.at(n, first_byte + eight * 8 * sizeof(E));
      uint4 words = {};
      if (Row::holds(8 * eight)) {
        if constexpr (IS_FP8<E>)
          words = widened<E>(load_shared_8(from));
        else
          words = load_shared_16(from);
      }
      unpack<Wide>(row, words, eight);
    }
  }
}

template <class Row, class E, int ROWS, int DIM>
inline void store_hook_row(RowTile<E, ROWS, DIM> tile, int n, const Row& row) {  // saturated to E
  int first_byte = Row::first() * sizeof(E);
  if constexpr (sizeof(E) == 4) {
#pragma unroll
    for (int i = 0; i < Row::VALUES_OF_LANE; i += 4)
      if (Row::holds(i))
        store_shared_16(tile.at(n, Row::dim_of(i) * 4), {__float_as_uint(row.x[i]), __float_as_uint(row.x[i + 1]),
                                                         __float_as_uint(row.x[i + 2]), __float_as_uint(row.x[i + 3])});
  } else if constexpr (Row::IN_HALVES) {
    constexpr int HALF = DIM / 2 * sizeof(E);
    uint4 words = pack_saturated<E>(row);
    store_shared_8(tile.at(n, first_byte), {words.x, words.y});
    store_shared_8(tile.at(n, first_byte + HALF), {words.z, words.w});
  } else {
#pragma unroll
    for (int eight = 0; eight < Row::VALUES_OF_LANE / 8; ++eight)
      if (Row::holds(8 * eight)) store_shared_16(tile.at(n, first_byte + 16 * eight), pack_saturated<E>(row, eight));
  }
}
