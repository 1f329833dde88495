// Which key tiles a block of queries visits: from the last to the first, without those that are proven empty.
#pragma once
#include "rows.cuh"
#include "span_keys.cuh"

class TileCursor {
 public:
  TileCursor(const KernelParams& p, const QueryBlock& block, int kv_begin, int kv_end)
      : request_(block.request), rows_(block.bounds(p)), kv_begin_(kv_begin), kv_end_(kv_end) {
    int tiles = (kv_end_ - kv_begin_ + TILE_KEYS - 1) / TILE_KEYS;
    group_ = (tiles + 31) / 32 * 32;
  }

  // First key of the last tile, or -1 when there is none; not asked whether it is empty.
  int last() const { return kv_begin_ < kv_end_ ? kv_begin_ + (kv_end_ - kv_begin_ - 1) / TILE_KEYS * TILE_KEYS : -1; }

  // First key of the next tile, or -1 when there is none. `full` says whether every logit of it counts.
  int next(const Variant& variant, bool& full) {
    while (live_ == 0) {
      if (group_ == 0) return -1;
      group_ -= 32;
      classify(variant);
    }
    int lane = 31 - __clz(live_);
    live_ ^= 1u << lane;
    full = whole_ >> lane & 1;
    return kv_begin_ + (group_ + lane) * TILE_KEYS;
  }

 private:
  // Classes of 32 tiles, one a lane.
  void classify(const Variant& variant) {
    int first_key = kv_begin_ + (group_ + threadIdx.x % 32) * TILE_KEYS;
    bool skip = first_key >= kv_end_;
    bool all = first_key + TILE_KEYS <= kv_end_;
    if constexpr (Variant::HAS_KV_LIST) {
      all = false;  // a tile of keys from here and there, some of them not there at all
    } else if (shares_rows(request_)) {  // the planner asked for each of them
      all &= request_.proven || !Variant::HAS_LOGITS_MASK;
    } else if constexpr (Variant::HAS_TILE_CLASS) {
      TileClass proven = variant.tile_class(tile_against(rows_, request_, first_key, min(first_key + TILE_KEYS, kv_end_) - 1));
      skip |= proven == TileClass::Skip;
      all &= proven == TileClass::Full;
    } else if constexpr (Variant::HAS_LOGITS_MASK) {
      all = false;
    }
    live_ = __ballot_sync(ALL_LANES, !skip);
    whole_ = __ballot_sync(ALL_LANES, all);
  }

  const Request& request_;
  QueryTile rows_;
  int kv_begin_, kv_end_;
  int group_;           // first tile of the 32 at hand
  unsigned live_ = 0;   // of those, still to visit
  unsigned whole_ = 0;  // of those, to run without a mask
};
