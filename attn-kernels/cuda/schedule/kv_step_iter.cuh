// KV step iterator of decode: steps of STEP_KEYS keys of a KV range, without the blocks that the variant's tile_class
// proves to be fully masked (Skip).
#pragma once

#include "memory/row.cuh"
#include "schedule/kv_range.cuh"

struct KvStep {
  int item;         // work item of the step
  int key;          // the step's first key; at or past the end of the KV range when the iteration is over
  bool full;        // proven: no key of the step is masked
  int position;     // with a KV list: position of the key that this lane looked up
  bool all_exist;   // with a KV list: all keys of this warp exist
  bool contiguous;  // all keys of this warp exist, and every 16 of them are contiguous in memory
};

class KvStepIter {
  static constexpr bool SKIPS = Variant::HAS_TILE_CLASS && !Variant::HAS_KV_LIST;
  // Blocks of whole steps are classified. Smaller blocks would skip more keys, and cost more.
  static constexpr int BLOCK = STEP_KEYS > 64 ? STEP_KEYS : 64;
  static_assert(BLOCK % STEP_KEYS == 0, "a block is whole steps");

  Request request_;
  QueryTile rows_;
  int begin_, end_;  // the KV range
  int next_;         // first key of the next step
  int window_;       // first of the 32 blocks that are classified
  unsigned skip_;    // one bit per block
  unsigned full_;
  bool request_full_ = !Variant::HAS_LOGITS_MASK;  // with a KV list: no key of the request is masked

  // Classifies 32 blocks, one per lane.
  void classify(const Variant& variant, int block) {
    window_ = block;
    int first = begin_ + (block + static_cast<int>(threadIdx.x % 32)) * BLOCK, last = min(first + BLOCK, end_) - 1;
    // blocks past the end are never visited, and tile_class is not defined for an empty tile
    TileClass tile_class =
        first <= last ? variant.tile_class(make_tile(rows_, request_.kv_begin, first, last)) : TileClass::Partial;
    skip_ = __ballot_sync(ALL_LANES, tile_class == TileClass::Skip);
    full_ = __ballot_sync(ALL_LANES, tile_class == TileClass::Full);
  }

 public:
  KvStepIter(const KernelParams& p, const Variant& variant, const QTile& q_tile, int begin, int end)
      : request_(q_tile.request),
        rows_(q_tile.bounds(p)),
        begin_(begin),
        end_(end),
        next_(begin),
        window_(-32),
        skip_(0),
        full_(0) {
    // The listed keys are scattered, so that only the whole request is classified: a causal mask, for example, does not
    // affect its last query.
    if constexpr (Variant::HAS_KV_LIST && Variant::HAS_TILE_CLASS)
      request_full_ =
          request_.kv_len > 0 &&
          variant.tile_class(make_tile(rows_, request_.kv_begin, 0, request_.kv_len - 1)) == TileClass::Full;
  }

  KvStep next(const Variant& variant) {
    bool full = Variant::HAS_KV_LIST && request_full_;
    if (SKIPS && shares_rows(request_)) {  // the planner has classified the segment
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
    KvStep step = {0, next_, full, 0, false, false};
    next_ += STEP_KEYS;
    return step;
  }
};
