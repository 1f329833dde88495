// Stream-K: the tiles of a batch on one line, cut into spans of equal cost. The formulas are those of attn-core/src/plan/line.rs, to the bit.
#pragma once
#include "planner/memory.cuh"

constexpr Cost MOST_COST = ~0ull;

inline Cost multiply_saturating(Cost a, Cost b) { return __umul64hi(a, b) == 0 ? a * b : MOST_COST; }
inline Cost add_saturating(Cost a, Cost b) { return a + b < a ? MOST_COST : a + b; }
// Once in the code: a division of 64 bits is long, and mostly of 32.
ATTN_CALL Cost divide_costs(Cost a, Cost b) { return a / b; }
inline Cost ceil_divide(Cost a, Cost b) { return divide_costs(a + b - 1, b); }

// The square root, rounded down.
inline Cost root(Cost x) {
  constexpr Cost most = 0xffffffff;
  Cost near = min(static_cast<Cost>(sqrt(static_cast<double>(x))), most);  // off by one at most
  if (near * near > x) return near - 1;
  return near < most && (near + 1) * (near + 1) <= x ? near + 1 : near;
}

// What so many take of a total: floor(n * total / of) for n <= of < 2^32, without overflow.
struct Shares {
  Cost of = 1, each = 0, rest = 0;

  Shares() = default;
  Shares(Cost total, Cost of) : of(of), each(divide_costs(total, of)), rest(total - each * of) {}
  Cost up_to(Cost n) const { return n * each + divide_costs(n * rest, of); }
};

class Line {
  const Cost* ends_;
  Cost tiles_;
  Cost piece_, block_;
  Cost workers_;
  Shares shares_;  // of the line; of tiles, where none is cut
  Cost shortest_, step_;
  bool whole_;    // no tile is cut

 public:
  // The longest tile has so many blocks.
  Line(const PlanParams& p, const Cost* ends, Cost tiles, Cost longest)
      : ends_(ends), tiles_(tiles), piece_(p.piece), block_(p.block), shortest_(p.shortest) {
    Cost total = tiles > 0 ? ends[tiles - 1] : 0;
    Cost shared = total > piece_ ? total - piece_ : 0;
    Cost span = shortest_ * block_;
    Cost spread = root(multiply_saturating(longest * block_, p.spread));
    Cost worth = min(divide_costs(shared, span), spread == 0 ? MOST_COST : divide_costs(shared, spread));
    workers_ = min(max(max(worth, tiles), Cost(1)), Cost(p.workers_most));
    shares_ = Shares(shared, workers_);
    step_ = shares_.each >= span ? 1 : shortest_;
    Cost each = ceil_divide(tiles, workers_);
    whole_ = multiply_saturating(each, piece_ + longest * block_) <= add_saturating(shares_.each, piece_ + block_);
    if (!whole_) return;
    workers_ = max(ceil_divide(tiles, max(each, Cost(1))), Cost(1));
    shares_ = Shares(tiles, workers_);
  }

  unsigned workers() const { return static_cast<unsigned>(workers_); }

  // Where a worker begins; where the last ends, for the number of workers.
  Cut cut(unsigned worker) const {
    if (worker == 0) return {0, 0};
    Cut end = {static_cast<unsigned>(tiles_), 0};
    if (worker >= workers_) return end;
    if (whole_) return {static_cast<unsigned>(shares_.up_to(worker)), 0};
    Cost at = piece_ + shares_.up_to(worker);
    unsigned tile = tile_at(at);
    if (tile == tiles_) return end;
    Cost begin = (tile > 0 ? ends_[tile - 1] : 0) + piece_;
    Cost block = at > begin ? divide_costs(at - begin, block_) : 0;
    if (step_ > 1) block = divide_costs(block, step_) * step_;
    return {tile, static_cast<unsigned>(block < shortest_ ? 0 : block)};
  }

 private:
  // The first tile that ends behind a place.
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
