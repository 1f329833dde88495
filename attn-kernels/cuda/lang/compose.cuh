// What the structs of a composition call: see attn-kernels/src/splice/variant.
#pragma once

#include "lang/coordinates.cuh"
#include "lang/types.cuh"

namespace lang {

// The class of a tile whose keys are promised to be attended to from keys.x to before keys.y only.
ATTN_FN TileClass class_in(Tuple2<int, int> keys, const Tile& tile, TileClass mask) {
  return tile.kv_pos_max < keys.x || tile.kv_pos_min >= keys.y ? TileClass::Skip : mask;
}

// A remapped position as parts under the map see it: below 2^30 in magnitude, as every index word is.
ATTN_FN int position(int pos) {
  constexpr int MOST = (1 << 30) - 1;
  return pos < -MOST ? -MOST : pos > MOST ? MOST : pos;
}
ATTN_FN Tile with_positions(Tile tile) {
  tile.qo_pos_min = position(tile.qo_pos_min);
  tile.qo_pos_max = position(tile.qo_pos_max);
  tile.kv_pos_min = position(tile.kv_pos_min);
  tile.kv_pos_max = position(tile.kv_pos_max);
  return tile;
}

// The row of a head under a hook that may be another head's: then it stays what it is. Every lane calls every combinator all the
// same, since reductions and rotations exchange values.
template <class R>
struct HeadRow {
  R& row;
  bool mine;

  ATTN_FN int dim() const { return row.dim(); }
  ATTN_FN float sum() const { return row.sum(); }
  ATTN_FN float sum_sq() const { return row.sum_sq(); }
  ATTN_FN float max_abs() const { return row.max_abs(); }
  template <class F>
  ATTN_FN float dot(F f) const {
    return row.dot(f);
  }
  template <class F>
  ATTN_FN void map(F f) {
    row.map([&](int d, float x) { return mine ? f(d, x) : x; });
  }
  template <class T, class F>
  ATTN_FN void zip(T t, F f) {
    row.zip(t, [&](int d, float x, float y) { return mine ? f(d, x, y) : x; });
  }
  template <class F>
  ATTN_FN void rotate_half(int rot, F f) {
    row.rotate_half(rot, [&](int d) { return mine ? f(d) : Pair{1.f, 0.f}; });
  }
  template <class F>
  ATTN_FN void rotate_pairs(int rot, F f) {
    row.rotate_pairs(rot, [&](int d) { return mine ? f(d) : Pair{1.f, 0.f}; });
  }
};

}  // namespace lang
