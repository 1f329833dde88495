// The visible KV blocks of a Q tile: all but the longest prefix and suffix that the mask provably skips, found by
// bisection over tile classes. Tile classes are monotone: proven for a range implies proven for every sub-range. So the
// result does not depend on the search hints and equals that of attn-core/src/plan/visible.rs. Except under stream-K,
// the block at each end is then classified again with the refined class.
#pragma once
#include "planner/refined_class.cuh"
#include "planner/requests.cuh"

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

  // The tile of the keys first ... last.
  Tile tile_of(int first, int last) const { return make_tile(tile_, first_key_, first, last); }

  // The tile of a non-empty range of blocks.
  Tile tile_over(BlockRange blocks) const {
    int align = align_.divisor;
    return tile_of(blocks.begin * align, min(blocks.end * align, tile_.kv_len) - 1);
  }

  // The tile class of a non-empty range of blocks.
  TileClass over(int begin, int end) const { return class_of(*variant_, tile_over({begin, end})); }

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

  // Whether the logit of one key under the first or the last row is not proven masked.
  bool may_attend_logit(bool first_row, int key) const {
    Tile one = tile_of(key, key);
    if (first_row) {
      one.qo_row_max = one.qo_row_min, one.qo_pos_max = one.qo_pos_min, one.qo_token_max = one.qo_token_min;
      one.qo_head_max = one.qo_head_min, one.kv_head_max = one.kv_head_min;
    } else {
      one.qo_row_min = one.qo_row_max, one.qo_pos_min = one.qo_pos_max, one.qo_token_min = one.qo_token_max;
      one.qo_head_min = one.qo_head_max, one.kv_head_min = one.kv_head_max;
    }
    return class_of(*variant_, one) != TileClass::Skip;
  }

  // Whether a block has a logit that is not proven masked, of three that are likely: then no class proves it skipped.
  bool may_attend(bool front, BlockRange block) const {
    Tile keys = tile_over(block);
    auto closest = [&](int pos) { return min(max(pos, keys.kv_pos_min), keys.kv_pos_max); };
    int of_first = closest(tile_.qo_pos_min), of_last = closest(tile_.qo_pos_max);
    int outer = front ? keys.kv_pos_min : keys.kv_pos_max;
    return may_attend_logit(front, front ? of_first : of_last) ||
           may_attend_logit(!front, front ? of_last : of_first) || may_attend_logit(front, outer);
  }

  // The blocks, up to `most`, that are skipped at one end by the refined class, where `cut` of them are by the class.
  ATTN_CALL int refine(bool front, int blocks, int most, int cut) const {
    auto counted = [&](int from, int to) {
      return front ? BlockRange{from, to} : BlockRange{blocks - to, blocks - from};
    };
    if (cut == most || may_attend(front, counted(cut, cut + 1))) return cut;
    RefinedClass<Variant> refined(*variant_);
    auto skips = [&](int n) { return refined.of(tile_over(counted(cut, cut + n))) == TileClass::Skip; };
    if (!skips(1)) return cut;
    if (most - cut == 1 || skips(most - cut)) return most;
    return cut + bisect(1, most - cut, skips);
  }

 public:
  SeenKeys(const Variant& variant, const QueryTile& rows, int first_key, FastDiv align)
      : variant_(&variant), first_key_(first_key), align_(align) {
    static_cast<QueryTile&>(tile_) = rows;
  }

  // The visible ones of `blocks` blocks, which are at least one.
  BlockRange find(int blocks, bool refines) const {
    TileClass all = over(0, blocks);
    if (all == TileClass::Full) return {0, blocks};
    if (all == TileClass::Skip) return {0, 0};
    int before = hidden_blocks(tile_.qo_row_min, tile_.qo_pos_min, tile_.qo_token_min, blocks).begin;
    int after = hidden_blocks(tile_.qo_row_max, tile_.qo_pos_max, tile_.qo_token_max, blocks).end;
    int begin = count_skipped(blocks, before, [&](int n) { return over(0, n) == TileClass::Skip; });
    if (refines) begin = refine(true, blocks, blocks, begin);
    int skipped =
        count_skipped(blocks - begin + 1, after, [&](int n) { return over(blocks - n, blocks) == TileClass::Skip; });
    if (refines) skipped = refine(false, blocks, blocks - begin, skipped);
    int end = blocks - skipped;
    return begin < end ? BlockRange{begin, end} : BlockRange{0, 0};
  }
};

// The coordinates of a tile's rows, as bounds. They cover all heads, since one work list serves all of them.
inline QueryTile query_tile(const PlanParams& p, const WorkItem& tile) {
  int first = divide(tile.first_row, p.group), last = divide(tile.first_row + tile.rows - 1, p.group);
  int pos = tile.kv_len - tile.qo_len;
  return {tile.request,         first, last,           first + pos, last + pos,     tile.qo_token + first,
          tile.qo_token + last, 0,     p.qo_heads - 1, 0,           p.kv_heads - 1, tile.qo_len,
          tile.kv_len};
}

// The visible KV blocks, of `align` keys, of a tile.
template <class Variant>
BlockRange visible_blocks(const PlanParams& p, const Variant& variant, const WorkItem& tile, FastDiv align,
                          bool refines) {
  int blocks = ceil_divide(tile.kv_len, align);
  if constexpr (Variant::HAS_TILE_CLASS) {
    SeenKeys<Variant> keys(variant, query_tile(p, tile), tile.kv_token, align);
    if (blocks > 0) return keys.find(blocks, refines);
  }
  return {0, blocks};
}
