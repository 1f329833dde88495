// Which key tiles a query tile visits: from the last to the first, without those that are proven empty.
#pragma once
#include "query_tile.cuh"
#include "rows.cuh"

class TileCursor {
 public:
  TileCursor(const KernelParams& p, const QueryTile& tile, const WorkItem& item)
      : kv_begin_(item.kv_begin), kv_end_(item.kv_end) {
    const Request& request = tile.request;
    rows_.batch = request.batch;
    rows_.qo_pos_min = divide(tile.first_row, p.group) + request.kv_len - request.qo_len;
    rows_.qo_pos_max = divide(tile.last_row, p.group) + request.kv_len - request.qo_len;
    rows_.qo_len = request.qo_len;
    rows_.kv_len = request.kv_len;
    int tiles = (kv_end_ - kv_begin_ + TILE_KEYS - 1) / TILE_KEYS;
    group_ = (tiles + 31) / 32 * 32;
  }

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
    if constexpr (Variant::HAS_TILE_CLASS) {
      Tile tile = rows_;
      tile.kv_pos_min = first_key;
      tile.kv_pos_max = min(first_key + TILE_KEYS, kv_end_) - 1;
      TileClass proven = variant.tile_class(tile);
      skip |= proven == TileClass::Skip;
      all &= proven == TileClass::Full;
    } else if constexpr (Variant::HAS_LOGITS_MASK) {
      all = false;
    }
    live_ = __ballot_sync(ALL_LANES, !skip);
    whole_ = __ballot_sync(ALL_LANES, all);
  }

  int kv_begin_, kv_end_;
  Tile rows_;           // everything but the keys
  int group_;           // first tile of the 32 at hand
  unsigned live_ = 0;   // of those, still to visit
  unsigned whole_ = 0;  // of those, to run without a mask
};
