// The visible KV blocks of a Q tile: all but the longest prefix and suffix that the mask provably skips, found by
// bisection over tile classes. Tile classes are monotone: proven for a range implies proven for every sub-range. So the
// result does not depend on the search hints and equals that of attn-core/src/plan/visible.rs.
#pragma once
#include "lang/coordinates.cuh"

#include "memory/address.cuh"

struct BlockRange {
  int begin, end;
};

// Classifies ranges of KV blocks for one Q tile.
template <class Variant>
class SeenKeys {
  const Variant* variant_;
  Tile tile_;
  int first_key_;  // key token of the request's first key
  FastDiv align_;  // keys per block

  // The tile class of a non-empty range of blocks.
  ATTN_CALL TileClass over(int begin, int end) const {
    Tile tile = tile_;
    int align = align_.divisor;
    tile.kv_pos_min = begin * align;
    tile.kv_pos_max = min(end * align, tile.kv_len) - 1;
    tile.kv_token_min = first_key_ + tile.kv_pos_min;
    tile.kv_token_max = first_key_ + tile.kv_pos_max;
    return variant_->tile_class(tile);
  }

  // The largest number of blocks, less than `too_many`, that are skipped at one end. Bisection starts at `guess`: if
  // that is right, two classifications suffice, or one if it is also the upper limit.
  template <class Skips>
  int count_skipped(int too_many, int guess, const Skips& skips) const {
    int yes = 0, no = too_many;
#pragma unroll 1
    for (int round = 0; no - yes > 1; ++round) {
      int near = max(guess + round, 1), middle = yes + (no - yes) / 2;
      int n = round < 2 && yes < near && near < no ? near : middle;
      (skips(n) ? yes : no) = n;
    }
    return yes;
  }

  // Search hints: the numbers of blocks before (`begin`) and after (`end`) the key interval of a row, 0 if unknown.
  BlockRange hidden_blocks(int row, int pos, int token, int blocks) const {
    if constexpr (Variant::HAS_BOUNDS) {
      auto keys = variant_->kv_bounds(
          {tile_.batch, row, pos, token, tile_.qo_head_min, tile_.kv_head_min, tile_.qo_len, tile_.kv_len});
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

  // The visible ones of `blocks` blocks, which are at least one.
  BlockRange find(int blocks) const {
    TileClass all = over(0, blocks);
    if (all == TileClass::Full) return {0, blocks};
    if (all == TileClass::Skip) return {0, 0};
    int before = hidden_blocks(tile_.qo_row_min, tile_.qo_pos_min, tile_.qo_token_min, blocks).begin;
    int after = hidden_blocks(tile_.qo_row_max, tile_.qo_pos_max, tile_.qo_token_max, blocks).end;
    int begin = count_skipped(blocks, before, [&](int n) { return over(0, n) == TileClass::Skip; });
    int end = blocks - count_skipped(blocks - begin + 1, after,
                                     [&](int n) { return over(blocks - n, blocks) == TileClass::Skip; });
    return begin < end ? BlockRange{begin, end} : BlockRange{0, 0};
  }
};
