// KV tile iterator of prefill: visits the KV tiles of a Q tile from the last to the first, and skips those whose tile
// class is Skip. A warp classifies 32 tiles at a time.
#pragma once
#include "memory/row.cuh"
#include "schedule/kv_range.cuh"

// Proven classes of a tile: of all rows of the Q tile, or one bit for each of PARTS groups of rows.
struct TileClasses {
  unsigned skip = 0;  // every element is masked
  unsigned full = 0;  // no element is masked
};

template <int PARTS = 1>
class KvTileIter {
 public:
  KvTileIter(const KernelParams& p, const QTile& q_tile, int kv_begin, int kv_end)
      : p_(p), q_tile_(q_tile), rows_(q_tile.bounds(p)), kv_begin_(kv_begin), kv_end_(kv_end) {
    int tiles = (kv_end_ - kv_begin_ + TILE_KEYS - 1) / TILE_KEYS;
    group_ = (tiles + 31) / 32 * 32;
  }

  // First key of the last tile, or -1 if there is none; it may be fully masked.
  int last() const { return kv_begin_ < kv_end_ ? kv_begin_ + (kv_end_ - kv_begin_ - 1) / TILE_KEYS * TILE_KEYS : -1; }

  // First key of the next tile, or -1 if there is none.
  int next(const Variant& variant, TileClasses& classes) {
    while (to_visit_ == 0) {
      if (group_ == 0) return -1;
      group_ -= 32;
      classify(variant);
    }
    int lane = 31 - __clz(to_visit_);
    to_visit_ ^= 1u << lane;
    classes = {};
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      classes.skip |= (skip_[part] >> lane & 1) << part;
      classes.full |= (full_[part] >> lane & 1) << part;
    }
    return kv_begin_ + (group_ + lane) * TILE_KEYS;
  }

 private:
  // Classifies 32 tiles, one per lane.
  void classify(const Variant& variant) {
    int first_key = kv_begin_ + (group_ + threadIdx.x % 32) * TILE_KEYS;
    to_visit_ = 0;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      TileClass proven = TileClass::Skip;
      if (first_key < kv_end_) proven = class_of(variant, part, first_key);
      skip_[part] = __ballot_sync(ALL_LANES, proven == TileClass::Skip);
      full_[part] = __ballot_sync(ALL_LANES, proven == TileClass::Full && first_key + TILE_KEYS <= kv_end_);
      to_visit_ |= ~skip_[part];
    }
  }

  TileClass class_of(const Variant& variant, int part, int first_key) const {
    // The listed keys are scattered, and some are missing.
    if constexpr (Variant::HAS_KV_LIST) return TileClass::Partial;
    // The planner has classified the segment.
    if (shares_rows(q_tile_.request))
      return q_tile_.request.proven || !Variant::HAS_LOGITS_MASK ? TileClass::Full : TileClass::Partial;
    if constexpr (Variant::HAS_TILE_CLASS) {
      QueryTile rows = rows_;
      if constexpr (PARTS > 1) {
        constexpr int ROWS = TILE_ROWS / PARTS;
        if (part * ROWS >= q_tile_.rows) return TileClass::Skip;
        rows = q_tile_.bounds(p_, part * ROWS, min(q_tile_.rows, (part + 1) * ROWS));
      }
      int last_key = min(first_key + TILE_KEYS, kv_end_) - 1;
      return variant.tile_class(make_tile(rows, q_tile_.request.kv_begin, first_key, last_key));
    } else {
      return Variant::HAS_LOGITS_MASK ? TileClass::Partial : TileClass::Full;
    }
  }

  const KernelParams& p_;
  const QTile& q_tile_;
  QueryTile rows_;  // bounds of the Q tile
  int kv_begin_, kv_end_;
  int group_;              // first of the 32 classified tiles
  unsigned to_visit_ = 0;  // one bit for each of them that is still to visit
  unsigned skip_[PARTS], full_[PARTS];
};
