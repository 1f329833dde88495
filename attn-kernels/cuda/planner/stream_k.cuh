// Stream-K: the line of all tiles, cut into equal shares, one per worker. The line is made of
// attn-core/src/plan/stream_k.rs; here is the search among the ends of tiles.
#pragma once
#include "planner/memory.cuh"
#include "planner/search.cuh"
#include "planner/stream_k_line.cuh"

class StreamK {
  const Cost* ends_;
  unsigned tiles_;
  lang::stream_k::Line line_;

 public:
  // `longest`: blocks of the longest tile.
  StreamK(const lang::stream_k::Costs& costs, const Cost* ends, unsigned tiles, Cost longest)
      : ends_(ends),
        tiles_(tiles),
        line_(lang::stream_k::line_of(costs, tiles > 0 ? ends[tiles - 1] : 0, tiles, longest, true)) {}

  unsigned workers() const { return static_cast<unsigned>(line_.workers); }

  // Where a worker begins. For `workers()`, where the last worker ends.
  Cut cut(unsigned worker) const {
    if (worker == 0) return {0, 0};
    if (worker >= workers()) return {tiles_, 0};
    Cost at = lang::stream_k::position(line_, worker);
    if (line_.whole_tiles) return {static_cast<unsigned>(at), 0};
    unsigned tile = tile_at(at);
    if (tile == tiles_) return {tiles_, 0};
    return {tile, static_cast<unsigned>(lang::stream_k::block_at(line_, at, tile > 0 ? ends_[tile - 1] : 0))};
  }

 private:
  // The tile that covers a position on the line: the first that ends past it.
  unsigned tile_at(Cost at) const {
    return partition_point(tiles_, [&](unsigned tile) { return ends_[tile] <= at; });
  }
};
