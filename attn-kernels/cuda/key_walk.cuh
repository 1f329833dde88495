// The order in which decode reads a span of keys: steps of STEP keys, without the blocks that the variant's tile_class
// proves to be masked out. Every warp of a CTA walks alike, so that all agree without talking.
#pragma once

#include "address.cuh"
#include "rows.cuh"

struct KeyStep {
  int kv_pos;  // of the step's first key; at or past the span's end when the walk is over
  bool full;   // proven: no key of the step is masked
};

template <int STEP> class KeyWalk {
  // Blocks are what is classified. Smaller ones skip more, and cost more.
  static constexpr int BLOCK = STEP > 64 ? STEP : 64;
  static_assert(BLOCK % STEP == 0, "a block is whole steps");

  Tile tile_;      // the query tile; its key bounds are those of the whole span
  int next_;       // first key of the next step
  int window_;     // first of the 32 blocks whose classes are known
  unsigned skip_;  // one bit a block
  unsigned full_;

  // One block a lane.
  void classify(const Variant& variant, int block) {
    window_ = block;
    Tile tile = tile_;
    tile.kv_pos_min = tile_.kv_pos_min + (block + static_cast<int>(threadIdx.x % 32)) * BLOCK;
    tile.kv_pos_max = min(tile.kv_pos_min + BLOCK - 1, tile_.kv_pos_max);
    // Past the end: never reached, and an empty tile is no question to ask.
    TileClass answer = tile.kv_pos_min <= tile_.kv_pos_max ? variant.tile_class(tile) : TileClass::Partial;
    skip_ = __ballot_sync(ALL_LANES, answer == TileClass::Skip);
    full_ = __ballot_sync(ALL_LANES, answer == TileClass::Full);
  }

 public:
  KeyWalk(const Tile& tile) : tile_(tile), next_(tile.kv_pos_min), window_(-32), skip_(0), full_(0) {}

  KeyStep next(const Variant& variant) {
    bool full = false;
    if constexpr (Variant::HAS_TILE_CLASS) {
      while (next_ <= tile_.kv_pos_max) {
        int block = (next_ - tile_.kv_pos_min) / BLOCK;
        if (block >= window_ + 32) classify(variant, block);
        int bit = block - window_;
        unsigned wanted = ~skip_ >> bit;
        if (wanted & 1) {
          full = full_ >> bit & 1;
          break;
        }
        int blocks = wanted ? __ffs(wanted) - 1 : 32 - bit;
        next_ = tile_.kv_pos_min + (block + blocks) * BLOCK;
      }
    }
    KeyStep step = {next_, full};
    next_ += STEP;
    return step;
  }
};
