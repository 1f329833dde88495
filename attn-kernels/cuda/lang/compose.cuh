// Helpers of composed variants: tile classes within promised key ranges, remapped positions, and row hooks per head.
// The text that attn-kernels/src/splice/variant emits calls them.
#pragma once

#include "lang/coordinates.cuh"
#include "lang/types.cuh"

namespace lang {

// The class of a tile under a promise that only keys from keys.x to before keys.y are visible.
ATTN_FN TileClass class_in_kv_range(Tuple2<int, int> keys, const Tile& tile, TileClass mask) {
  return tile.kv_pos_max < keys.x || tile.kv_pos_min >= keys.y ? TileClass::Skip : mask;
}

// Clamps a remapped position to less than 2^30 in magnitude, the range of every coordinate.
ATTN_FN int clamp_position(int pos) {
  constexpr int LIMIT = (1 << 30) - 1;
  return pos < -LIMIT ? -LIMIT : pos > LIMIT ? LIMIT : pos;
}
ATTN_FN Tile clamp_positions(Tile tile) {
  tile.qo_pos_min = clamp_position(tile.qo_pos_min);
  tile.qo_pos_max = clamp_position(tile.qo_pos_max);
  tile.kv_pos_min = clamp_position(tile.kv_pos_min);
  tile.kv_pos_max = clamp_position(tile.kv_pos_max);
  return tile;
}

// A row passed to the hook of one branch of a union over heads. The hook changes it only if the row's head belongs to
// that branch. Every lane calls every combinator all the same, since reductions and rotations exchange values.
template <class R>
struct HeadRow {
  R& row;
  bool selected;

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
    row.map([&](int d, float x) { return selected ? f(d, x) : x; });
  }
  template <class T, class F>
  ATTN_FN void zip(T t, F f) {
    row.zip(t, [&](int d, float x, float y) { return selected ? f(d, x, y) : x; });
  }
  template <class F>
  ATTN_FN void rotate_half(int rot, F f) {
    row.rotate_half(rot, [&](int d) { return selected ? f(d) : Pair{1.f, 0.f}; });
  }
  template <class F>
  ATTN_FN void rotate_pairs(int rot, F f) {
    row.rotate_pairs(rot, [&](int d) { return selected ? f(d) : Pair{1.f, 0.f}; });
  }
};

}  // namespace lang
