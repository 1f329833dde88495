// Stream-K: the tiles of a batch lie on one line of costs, which is cut into equal shares, one per worker.
// The formulas are those of attn-core/src/plan/stream_k.rs and give the same bits.
#pragma once
#include "planner/memory.cuh"

constexpr Cost MAX_COST = ~0ull;

inline Cost multiply_saturating(Cost a, Cost b) { return __umul64hi(a, b) == 0 ? a * b : MAX_COST; }
inline Cost add_saturating(Cost a, Cost b) { return a + b < a ? MAX_COST : a + b; }
// A call, so that the long code of a 64-bit division exists once.
ATTN_CALL Cost divide_costs(Cost a, Cost b) { return a / b; }
inline Cost ceil_divide(Cost a, Cost b) { return divide_costs(a + b - 1, b); }

// The square root, rounded down.
inline Cost root(Cost x) {
  constexpr Cost max_root = 0xffffffff;
  Cost near = min(static_cast<Cost>(sqrt(static_cast<double>(x))), max_root);  // off by at most one
  if (near * near > x) return near - 1;
  return near < max_root && (near + 1) * (near + 1) <= x ? near + 1 : near;
}

// The first n of `of` equal shares of a total: floor(n * total / of) for n <= of < 2^32, without overflow.
struct Shares {
  Cost of = 1, each = 0, rest = 0;

  Shares() = default;
  Shares(Cost total, Cost of) : of(of), each(divide_costs(total, of)), rest(total - each * of) {}
  Cost up_to(Cost n) const { return n * each + divide_costs(n * rest, of); }
};

class StreamK {
  const Cost* ends_;
  Cost tiles_;
  Cost item_cost_, block_cost_;
  Cost workers_;
  Shares shares_;  // of the line; of the tiles if whole_tiles_
  Cost min_blocks_, step_;
  bool whole_tiles_;  // no tile is cut

 public:
  // `longest`: blocks of the longest tile.
  StreamK(const PlanParams& p, const Cost* ends, Cost tiles, Cost longest)
      : ends_(ends),
        tiles_(tiles),
        item_cost_(p.item_cost),
        block_cost_(p.block_cost),
        min_blocks_(p.min_split_blocks) {
    Cost total = tiles > 0 ? ends[tiles - 1] : 0;
    Cost shared = total > item_cost_ ? total - item_cost_ : 0;
    Cost min_share = min_blocks_ * block_cost_;
    Cost merge_share = root(multiply_saturating(longest * block_cost_, p.merge_cost));
    Cost useful = min(divide_costs(shared, min_share), merge_share == 0 ? MAX_COST : divide_costs(shared, merge_share));
    workers_ = min(max(max(useful, tiles), Cost(1)), Cost(p.max_workers));
    shares_ = Shares(shared, workers_);
    step_ = shares_.each >= min_share ? 1 : min_blocks_;
    Cost each = ceil_divide(tiles, workers_);
    whole_tiles_ = multiply_saturating(each, item_cost_ + longest * block_cost_) <=
                   add_saturating(shares_.each, item_cost_ + block_cost_);
    if (!whole_tiles_) return;
    workers_ = max(ceil_divide(tiles, max(each, Cost(1))), Cost(1));
    shares_ = Shares(tiles, workers_);
  }

  unsigned workers() const { return static_cast<unsigned>(workers_); }

  // Where a worker begins. For `workers()`, where the last worker ends.
  Cut cut(unsigned worker) const {
    if (worker == 0) return {0, 0};
    Cut end = {static_cast<unsigned>(tiles_), 0};
    if (worker >= workers_) return end;
    if (whole_tiles_) return {static_cast<unsigned>(shares_.up_to(worker)), 0};
    Cost at = item_cost_ + shares_.up_to(worker);
    unsigned tile = tile_at(at);
    if (tile == tiles_) return end;
    Cost begin = (tile > 0 ? ends_[tile - 1] : 0) + item_cost_;
    Cost block = at > begin ? divide_costs(at - begin, block_cost_) : 0;
    if (step_ > 1) block = divide_costs(block, step_) * step_;
    return {tile, static_cast<unsigned>(block < min_blocks_ ? 0 : block)};
  }

 private:
  // The tile that covers a position on the line: the first that ends past it.
  unsigned tile_at(Cost at) const {
    unsigned begin = 0, end = static_cast<unsigned>(tiles_);
#pragma unroll 1
    while (begin < end) {
      unsigned middle = (begin + end) / 2;
      if (ends_[middle] <= at) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }
};
