// Decodes stored rows of a KV format into the registers of row hooks.
#pragma once
#include "lang/packed.cuh"
#include "memory/row.cuh"

// Decodes this lane's values of a row; a lane without values has zeros.
template <class Row, class Format, class Codes, class Side>
inline void load_packed_row(Row& row, const Format& format, Codes codes, Side side, int kv_head) {
  if constexpr (Row::IN_HALVES && Row::LANES_OF_ROW > 1) {
    // two lanes share the eights that hold their fours
    int eight = Row::first() & ~7;
    Array<float, 8> low = format.decode(codes, side, kv_head, eight);
    Array<float, 8> high = format.decode(codes, side, kv_head, eight + Row::DIMS / 2);
    bool upper = Row::first() & 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      row.x[i] = upper ? low.x[4 + i] : low.x[i];
      row.x[4 + i] = upper ? high.x[4 + i] : high.x[i];
    }
  } else {
#pragma unroll
    for (int eight = 0; eight < Row::VALUES_OF_LANE; eight += 8) {
      Array<float, 8> values = {};
      if (Row::holds(eight)) values = format.decode(codes, side, kv_head, Row::first() + eight);
#pragma unroll
      for (int i = 0; i < 8; ++i) row.x[eight + i] = values.x[i];
    }
  }
}
