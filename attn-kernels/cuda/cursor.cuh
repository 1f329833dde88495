// Which key tiles a query tile visits: from the last to the first, without those that are proven empty.
#pragma once
#include "address.cuh"

class TileCursor {
 public:
  // `rows`: the valid packed rows of this CTA, first and last.
  TileCursor(const KernelParams& p, const Request& request, const WorkItem& item, int first_row, int last_row)
      : kv_begin(item.kv_begin), kv_end(item.kv_end) {
    const int offset = request.kv_len - request.qo_len;
    rows.batch = request.batch;
    rows.qo_pos_min = divide(first_row, p.group) + offset;
    rows.qo_pos_max = divide(last_row, p.group) + offset;
    rows.qo_len = request.qo_len;
    rows.kv_len = request.kv_len;
    const int tiles = (kv_end - kv_begin + TILE_KEYS - 1) / TILE_KEYS;
    group = (tiles + 31) / 32 * 32;
  }

  // First key of the next tile, or -1 when there is none. `full` says whether every logit of it counts.
  int next(const Variant& variant, bool& full) {
    while (live == 0) {
      if (group == 0) return -1;
      group -= 32;
      classify(variant);
    }
    const int lane = 31 - __clz(live);
    live ^= 1u << lane;
    full = whole >> lane & 1;
    return kv_begin + (group + lane) * TILE_KEYS;
  }

 private:
  // Classes of 32 tiles, one a lane.
  void classify(const Variant& variant) {
    const int first_key = kv_begin + (group + threadIdx.x % 32) * TILE_KEYS;
    bool skip = first_key >= kv_end;
    bool all = first_key + TILE_KEYS <= kv_end;
    if constexpr (Variant::HAS_TILE_CLASS) {
      Tile tile = rows;
      tile.kv_pos_min = first_key;
      tile.kv_pos_max = min(first_key + TILE_KEYS, kv_end) - 1;
      const TileClass proven = variant.tile_class(tile);
      skip |= proven == TileClass::Skip;
      all &= proven == TileClass::Full;
    } else if constexpr (Variant::HAS_LOGITS_MASK) {
      all = false;
    }
    live = __ballot_sync(0xffffffffu, !skip);
    whole = __ballot_sync(0xffffffffu, all);
  }

  int kv_begin, kv_end;
  Tile rows;            // everything but the keys
  int group;            // first tile of the 32 at hand
  unsigned live = 0;    // of those, still to visit
  unsigned whole = 0;   // of those, to run without a mask
};
