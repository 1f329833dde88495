// The order in which decode reads a span of keys: steps of STEP_KEYS keys, without the blocks that the variant's tile_class
// proves to be masked out.
#pragma once

#include "memory/row.cuh"
#include "schedule/kv_range.cuh"

struct KeyStep {
  int item;      // the work that it belongs to
  int key;       // the step's first key; at or past the span's end when the walk is over
  bool full;     // proven: no key of the step is masked
  int position;  // under a list: of the key that this lane looked up
  bool there;    // under a list: this warp's keys all exist
  bool in_line;  // this warp's keys are all there, and every 16 of them lie in a line of memory
};

class KeyWalk {
  static constexpr bool SKIPS = Variant::HAS_TILE_CLASS && !Variant::HAS_KV_LIST;
  // Blocks are what is classified: whole steps. Smaller ones skip more, and cost more.
  static constexpr int BLOCK = STEP_KEYS > 64 ? STEP_KEYS : 64;
  static_assert(BLOCK % STEP_KEYS == 0, "a block is whole steps");

  Request request_;
  QueryTile rows_;
  int begin_, end_;  // the span
  int next_;         // first key of the next step
  int window_;       // first of the 32 blocks whose classes are known
  unsigned skip_;    // one bit a block
  unsigned full_;
  bool all_full_ = !Variant::HAS_LOGITS_MASK;  // under a list: no key of the request is masked

  // One block a lane.
  void classify(const Variant& variant, int block) {
    window_ = block;
    int first = begin_ + (block + static_cast<int>(threadIdx.x % 32)) * BLOCK, last = min(first + BLOCK, end_) - 1;
    // Past the end: never reached, and an empty tile is no question to ask.
    TileClass answer = first <= last ? variant.tile_class(tile_against(rows_, request_, first, last)) : TileClass::Partial;
    skip_ = __ballot_sync(ALL_LANES, answer == TileClass::Skip);
    full_ = __ballot_sync(ALL_LANES, answer == TileClass::Full);
  }

 public:
  KeyWalk(const KernelParams& p, const Variant& variant, const QueryBlock& block, int begin, int end)
      : request_(block.request), rows_(block.bounds(p)), begin_(begin), end_(end), next_(begin), window_(-32), skip_(0), full_(0) {
    // Keys come from anywhere: what is asked once is whether the mask matters at all, which causal ones do not to a last query.
    if constexpr (Variant::HAS_KV_LIST && Variant::HAS_TILE_CLASS)
      all_full_ = request_.kv_len > 0 && variant.tile_class(tile_against(rows_, request_, 0, request_.kv_len - 1)) == TileClass::Full;
  }

  KeyStep next(const Variant& variant) {
    bool full = Variant::HAS_KV_LIST && all_full_;
    if (SKIPS && shares_rows(request_)) {  // the planner asked for each of them
      full = request_.proven;
    } else if constexpr (SKIPS) {
      while (next_ < end_) {
        int block = (next_ - begin_) / BLOCK;
        if (block >= window_ + 32) classify(variant, block);
        int bit = block - window_;
        unsigned wanted = ~skip_ >> bit;
        if (wanted & 1) {
          full = full_ >> bit & 1;
          break;
        }
        int blocks = wanted ? __ffs(wanted) - 1 : 32 - bit;
        next_ = begin_ + (block + blocks) * BLOCK;
      }
    }
    KeyStep step = {0, next_, full, 0, false, false};
    next_ += STEP_KEYS;
    return step;
  }
};
