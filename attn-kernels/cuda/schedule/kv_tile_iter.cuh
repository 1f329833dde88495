// Which key tiles a block of queries visits: from the last to the first, without those that are proven empty.
#pragma once
#include "memory/row.cuh"
#include "schedule/kv_range.cuh"

// What is proven of a tile: of all rows of the block, or of so many parts of them, a bit each.
struct TileClasses {
  unsigned skip = 0;  // no logit counts
  unsigned full = 0;  // every logit counts
};

template <int PARTS = 1>
class TileCursor {
 public:
  TileCursor(const KernelParams& p, const QueryBlock& block, int kv_begin, int kv_end)
      : p_(p), block_(block), rows_(block.bounds(p)), kv_begin_(kv_begin), kv_end_(kv_end) {
    int tiles = (kv_end_ - kv_begin_ + TILE_KEYS - 1) / TILE_KEYS;
    group_ = (tiles + 31) / 32 * 32;
  }

  // First key of the last tile, or -1 when there is none; not asked whether it is empty.
  int last() const { return kv_begin_ < kv_end_ ? kv_begin_ + (kv_end_ - kv_begin_ - 1) / TILE_KEYS * TILE_KEYS : -1; }

  // First key of the next tile, or -1 when there is none.
  int next(const Variant& variant, TileClasses& classes) {
    while (live_ == 0) {
      if (group_ == 0) return -1;
      group_ -= 32;
      classify(variant);
    }
    int lane = 31 - __clz(live_);
    live_ ^= 1u << lane;
    classes = {};
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      classes.skip |= (empty_[part] >> lane & 1) << part;
      classes.full |= (whole_[part] >> lane & 1) << part;
    }
    return kv_begin_ + (group_ + lane) * TILE_KEYS;
  }

 private:
  // Classes of 32 tiles, one a lane.
  void classify(const Variant& variant) {
    int first_key = kv_begin_ + (group_ + threadIdx.x % 32) * TILE_KEYS;
    live_ = 0;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      TileClass proven = TileClass::Skip;
      if (first_key < kv_end_) proven = class_of(variant, part, first_key);
      empty_[part] = __ballot_sync(ALL_LANES, proven == TileClass::Skip);
      whole_[part] = __ballot_sync(ALL_LANES, proven == TileClass::Full && first_key + TILE_KEYS <= kv_end_);
      live_ |= ~empty_[part];
    }
  }

  TileClass class_of(const Variant& variant, int part, int first_key) const {
    if constexpr (Variant::HAS_KV_LIST) return TileClass::Partial;  // a tile of keys from here and there, some of them not there at all
    if (shares_rows(block_.request)) return block_.request.proven || !Variant::HAS_LOGITS_MASK ? TileClass::Full : TileClass::Partial;  // the planner asked
    if constexpr (Variant::HAS_TILE_CLASS) {
      QueryTile rows = rows_;
      if constexpr (PARTS > 1) {
        constexpr int ROWS = TILE_ROWS / PARTS;
        if (part * ROWS >= block_.rows) return TileClass::Skip;
        rows = block_.bounds(p_, part * ROWS, min(block_.rows, (part + 1) * ROWS));
      }
      return variant.tile_class(tile_against(rows, block_.request, first_key, min(first_key + TILE_KEYS, kv_end_) - 1));
    } else {
      return Variant::HAS_LOGITS_MASK ? TileClass::Partial : TileClass::Full;
    }
  }

  const KernelParams& p_;
  const QueryBlock& block_;
  QueryTile rows_;  // of the block
  int kv_begin_, kv_end_;
  int group_;           // first tile of the 32 at hand
  unsigned live_ = 0;   // of those, still to visit
  unsigned empty_[PARTS], whole_[PARTS];
};
