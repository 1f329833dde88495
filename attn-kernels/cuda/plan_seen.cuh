// Which blocks of keys a tile of rows may attend to: all but the longest prefix and suffix that the mask is proven to skip, as
// attn-core/src/plan/visible.rs finds them for a line. What is proven of keys is proven of fewer of them, so that bisection
// finds the same, whatever was asked before.
#pragma once
#include "index.cuh"

struct Blocks {
  int begin, end;
};

template <class Variant>
class SeenKeys {
  const Variant* variant_;
  Tile tile_;
  int first_key_;  // into packed keys
  int align_;      // keys of a block

  // What is known of some blocks, at least one.
  ATTN_CALL TileClass over(int begin, int end) const {
    Tile tile = tile_;
    tile.kv_pos_min = begin * align_;
    tile.kv_pos_max = min(end * align_, tile.kv_len) - 1;
    tile.kv_token_min = first_key_ + tile.kv_pos_min;
    tile.kv_token_max = first_key_ + tile.kv_pos_max;
    return variant_->tile_class(tile);
  }

  // The most blocks at one end that are skipped, fewer than `too_many`.
  template <class Skips>
  int most(int too_many, const Skips& skips) const {
    int yes = 0, no = too_many;
    for (int n = 1; no - yes > 1; n = yes + (no - yes) / 2) (skips(n) ? yes : no) = n;
    return yes;
  }

 public:
  SeenKeys(const Variant& variant, const QueryTile& rows, int first_key, int align)
      : variant_(&variant), first_key_(first_key), align_(align) {
    static_cast<QueryTile&>(tile_) = rows;
  }

  // Of all blocks, at least one.
  Blocks find(int blocks) const {
    TileClass all = over(0, blocks);
    if (all == TileClass::Full) return {0, blocks};
    if (all == TileClass::Skip) return {0, 0};
    int begin = most(blocks, [&](int n) { return over(0, n) == TileClass::Skip; });
    int end = blocks - most(blocks - begin + 1, [&](int n) { return over(blocks - n, blocks) == TileClass::Skip; });
    return begin < end ? Blocks{begin, end} : Blocks{0, 0};
  }
};
