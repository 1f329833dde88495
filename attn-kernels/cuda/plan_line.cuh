// Stream-K: the tiles of a batch on one line, cut into spans of equal cost. The formulas are those of attn-core/src/plan/line.rs, to the bit.
#pragma once
#include "index.cuh"

#include "address.cuh"  // fast division
#include "plan_memory.cuh"

constexpr Cost MOST_COST = ~0ull;

inline Cost multiply_saturating(Cost a, Cost b) { return __umul64hi(a, b) == 0 ? a * b : MOST_COST; }
inline Cost add_saturating(Cost a, Cost b) { return a + b < a ? MOST_COST : a + b; }
inline Cost divide(Cost n, LongDiv d) { return __umul64hi(2 * n, d.magic) >> d.shift; }
// By what the host does not know. Once in the code: a division of 64 bits is long, and mostly of 32.
ATTN_CALL Cost divide_costs(Cost a, Cost b) { return a / b; }

// The square root, rounded down.
ATTN_CALL Cost root(Cost x) {
  constexpr Cost most = 0xffffffff;
  Cost near = min(static_cast<Cost>(sqrt(static_cast<double>(x))), most);  // off by one at most
  if (near * near > x) return near - 1;
  return near < most && (near + 1) * (near + 1) <= x ? near + 1 : near;
}

// Whether the square root, rounded down, is at most so many.
inline bool root_within(Cost x, Cost most) { return most >= 0xffffffff || (most + 1) * (most + 1) > x; }

class Line {
  const PlanParams& p_;
  const Cost* ends_;
  unsigned tiles_;
  unsigned workers_;
  Cost each_;      // what a worker has of the line, or of the tiles where none is cut
  unsigned rest_;  // what that leaves of all
  bool fine_;      // cuts may be at any block
  bool whole_;     // no tile is cut
  bool most_;      // as many workers as may be

  Cost divide_by_workers(Cost n) const { return most_ ? divide(n, p_.by_workers) : divide_costs(n, workers_); }

  void share(Cost total) {
    each_ = divide_by_workers(total);
    rest_ = static_cast<unsigned>(total - each_ * workers_);
  }
  // floor(n * total / workers) for n <= workers < 2^31, without overflow.
  Cost up_to(unsigned n) const { return n * each_ + (rest_ == 0 ? 0 : divide_by_workers(static_cast<Cost>(n) * rest_)); }

 public:
  // All cost so much, and the longest tile has so many blocks. Questions whether a quotient is at least so much are asked as products.
  Line(const PlanParams& p, const Cost* ends, unsigned tiles, Cost total, unsigned longest) : p_(p), ends_(ends), tiles_(tiles) {
    unsigned most = p.workers_most;
    Cost piece = p.piece, block = p.block, span = p.by_span.divisor;
    Cost shared = total > piece ? total - piece : 0, share_of_most = divide(shared, p.by_workers);
    Cost spread = multiply_saturating(longest * block, p.spread);  // of which the root counts
    most_ = tiles >= most || (share_of_most >= span && root_within(spread, share_of_most));
    workers_ = most;
    if (!most_) {
      Cost worth = root_within(spread, span) ? divide(shared, p.by_span) : divide_costs(shared, root(spread));
      workers_ = max(max(static_cast<unsigned>(worth), tiles), 1u);  // worth fewer than the most
    }
    fine_ = multiply_saturating(span, workers_) <= shared;
    unsigned each = tiles <= workers_ ? min(tiles, 1u) : static_cast<unsigned>(divide(tiles - 1, p.by_workers)) + 1;
    Cost longest_share = multiply_saturating(piece + longest * block, each), slack = piece + block;
    whole_ = longest_share <= slack || multiply_saturating(longest_share - slack, workers_) <= shared;
    if (whole_) {
      workers_ = each <= 1 ? max(tiles, 1u) : (tiles + each - 1) / each;
      most_ = workers_ == most;
    }
    if (whole_ && each <= 1) {
      each_ = each, rest_ = 0;
    } else {
      share(whole_ ? tiles : shared);
    }
  }

  unsigned workers() const { return workers_; }

  // Where a worker begins; where the last ends, for the number of workers.
  Cut cut(unsigned worker) const {
    if (worker == 0) return {0, 0};
    Cut end = {tiles_, 0};
    if (worker >= workers_) return end;
    Cost before = up_to(worker);
    if (whole_) return {static_cast<unsigned>(before), 0};
    unsigned tile = tile_at(p_.piece + before);
    if (tile == tiles_) return end;
    Cost begin = tile > 0 ? ends_[tile - 1] : 0;  // the pieces of both are left out
    unsigned block = before > begin ? static_cast<unsigned>(divide(before - begin, p_.by_block)) : 0;
    if (!fine_) block = divide(block, p_.shortest) * p_.shortest.divisor;
    return {tile, block < p_.shortest.divisor ? 0 : block};
  }

 private:
  // The first tile that ends behind a place: of four parts of what is left, that in which it is.
  unsigned tile_at(Cost at) const {
    unsigned first = 0;
#pragma unroll 1
    for (unsigned part = 1u << ((31 - __clz(tiles_)) & ~1); part > 0; part /= 4) {
      Cost ends[3];
#pragma unroll
      for (int i = 0; i < 3; ++i) ends[i] = ends_[min(first + (i + 1) * part, tiles_) - 1];
      first += ((ends[0] <= at) + (ends[1] <= at) + (ends[2] <= at)) * part;
    }
    return min(first, tiles_);
  }
};
