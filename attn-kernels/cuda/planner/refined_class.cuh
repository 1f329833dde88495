// Refined tile classes: the quarters of a `Partial` tile, and the tile without its empty edges. As
// attn-core/src/expr/refine.rs, where the host refines.
#pragma once
#include "lang/coordinates.cuh"
#include "planner/search.cuh"

// A call, so that the code of a mask exists once.
template <class Variant>
ATTN_CALL TileClass class_of(const Variant& variant, const Tile& tile) {
  return variant.tile_class(tile);
}

// The queries of a tile.
struct QueryAxis {
  // 1 where positions and tokens are not consecutive, since the tile cannot be split then.
  static int count(const Tile& tile) {
    int more = tile.qo_row_max - tile.qo_row_min;
    bool along = tile.qo_pos_max - tile.qo_pos_min == more && tile.qo_token_max - tile.qo_token_min == more &&
                 tile.qo_pos_min - tile.qo_row_min == tile.kv_len - tile.qo_len;
    return along ? more + 1 : 1;
  }
  static Tile first(Tile tile, int n) {
    tile.qo_row_max = tile.qo_row_min + n - 1;
    tile.qo_pos_max = tile.qo_pos_min + n - 1;
    tile.qo_token_max = tile.qo_token_min + n - 1;
    return tile;
  }
  static Tile after(Tile tile, int n) {
    tile.qo_row_min += n, tile.qo_pos_min += n, tile.qo_token_min += n;
    return tile;
  }
};

// The keys of a tile.
struct KeyAxis {
  static int count(const Tile& tile) {
    int more = tile.kv_pos_max - tile.kv_pos_min;
    return tile.kv_token_max - tile.kv_token_min == more ? more + 1 : 1;
  }
  static Tile first(Tile tile, int n) {
    tile.kv_pos_max = tile.kv_pos_min + n - 1, tile.kv_token_max = tile.kv_token_min + n - 1;
    return tile;
  }
  static Tile after(Tile tile, int n) {
    tile.kv_pos_min += n, tile.kv_token_min += n;
    return tile;
  }
};

template <class Variant>
class RefinedClass {
  const Variant& variant_;

  bool is_empty(const Tile& tile) const { return class_of(variant_, tile) == TileClass::Skip; }

  // Cuts the empty rows or keys off one edge. At least one remains. Returns whether any were cut.
  template <class Axis>
  bool cut_edge(Tile& tile, bool front) const {
    int count = Axis::count(tile);
    auto edge = [&](int n) { return front ? Axis::first(tile, n) : Axis::after(tile, count - n); };
    if (count < 2 || !is_empty(edge(1))) return false;
    int empty = bisect(1, count, [&](int n) { return is_empty(edge(n)); });
    tile = front ? Axis::after(tile, empty) : Axis::first(tile, count - empty);
    return true;
  }

  // Whether no logit is left after the empty edges are cut off. A cut at one edge may allow another at the next.
  bool is_empty_but_for_edges(Tile rest) const {
#pragma unroll 1
    for (int edge = 0; edge < 8; ++edge) {
      bool front = edge % 2 == 0, of_queries = edge % 4 < 2;
      bool cut = of_queries ? cut_edge<QueryAxis>(rest, front) : cut_edge<KeyAxis>(rest, front);
      if (cut && is_empty(rest)) return true;
    }
    return false;
  }

 public:
  explicit RefinedClass(const Variant& variant) : variant_(variant) {}

  TileClass of(const Tile& tile) const {
    TileClass whole = class_of(variant_, tile);
    if (whole != TileClass::Partial) return whole;
    int queries = QueryAxis::count(tile), keys = KeyAxis::count(tile);
    auto half = [](auto axis, const Tile& of, int count, int second) {
      int n = count - count / 2;
      return count < 2 ? of : second ? decltype(axis)::after(of, n) : decltype(axis)::first(of, n);
    };
    TileClass first = TileClass::Partial;
    bool same = true;
#pragma unroll 1
    for (int quarter = 0; quarter < 4 && same; ++quarter) {
      bool repeats = (queries < 2 && quarter >= 2) || (keys < 2 && quarter % 2 == 1);
      if (repeats) continue;
      Tile part = half(KeyAxis(), half(QueryAxis(), tile, queries, quarter / 2), keys, quarter % 2);
      TileClass of_part = class_of(variant_, part);
      if (quarter == 0) first = of_part;
      same = of_part == first && first != TileClass::Partial;
    }
    if (same) return first;
    return is_empty_but_for_edges(tile) ? TileClass::Skip : TileClass::Partial;
  }
};
