// Which blocks of keys a tile of rows may attend to: all but the longest prefix and suffix that the mask is proven to skip, as
// attn-core/src/plan/visible.rs finds them for a line. What is proven of keys is proven of fewer of them, so that bisection
// finds the same, whatever was asked before.
#pragma once
#include "lang/coordinates.cuh"

#include "memory/address.cuh"  // of index words

struct Blocks {
  int begin, end;
};

template <class Variant>
class SeenKeys {
  const Variant* variant_;
  Tile tile_;
  int first_key_;  // into packed keys
  FastDiv align_;  // keys of a block

  // What is known of some blocks, at least one.
  ATTN_CALL TileClass over(int begin, int end) const {
    Tile tile = tile_;
    int align = align_.divisor;
    tile.kv_pos_min = begin * align;
    tile.kv_pos_max = min(end * align, tile.kv_len) - 1;
    tile.kv_token_min = first_key_ + tile.kv_pos_min;
    tile.kv_token_max = first_key_ + tile.kv_pos_max;
    return variant_->tile_class(tile);
  }

  // The most blocks at one end that are skipped, fewer than `too_many`. A guess that is right takes two questions, none but one.
  template <class Skips>
  int most(int too_many, int guess, const Skips& skips) const {
    int yes = 0, no = too_many;
#pragma unroll 1
    for (int asked = 0; no - yes > 1; ++asked) {
      int near = max(guess + asked, 1), middle = yes + (no - yes) / 2;
      int n = asked < 2 && yes < near && near < no ? near : middle;
      (skips(n) ? yes : no) = n;
    }
    return yes;
  }

  // Blocks before and behind what a row sees, if it says so.
  Blocks hidden(int row, int pos, int token, int blocks) const {
    if constexpr (Variant::HAS_BOUNDS) {
      auto keys = variant_->kv_bounds({tile_.batch, row, pos, token, tile_.qo_head_min, tile_.kv_head_min, tile_.qo_len, tile_.kv_len});
      int begin = min(max(keys.begin, 0), tile_.kv_len), end = min(max(keys.end, 1), tile_.kv_len);
      return {divide(begin, align_), blocks - (divide(end - 1, align_) + 1)};
    }
    return {0, 0};
  }

 public:
  SeenKeys(const Variant& variant, const QueryTile& rows, int first_key, FastDiv align)
      : variant_(&variant), first_key_(first_key), align_(align) {
    static_cast<QueryTile&>(tile_) = rows;
  }

  // Of all blocks, at least one.
  Blocks find(int blocks) const {
    TileClass all = over(0, blocks);
    if (all == TileClass::Full) return {0, blocks};
    if (all == TileClass::Skip) return {0, 0};
    int before = hidden(tile_.qo_row_min, tile_.qo_pos_min, tile_.qo_token_min, blocks).begin;
    int behind = hidden(tile_.qo_row_max, tile_.qo_pos_max, tile_.qo_token_max, blocks).end;
    int begin = most(blocks, before, [&](int n) { return over(0, n) == TileClass::Skip; });
    int end = blocks - most(blocks - begin + 1, behind, [&](int n) { return over(blocks - n, blocks) == TileClass::Skip; });
    return begin < end ? Blocks{begin, end} : Blocks{0, 0};
  }
};
