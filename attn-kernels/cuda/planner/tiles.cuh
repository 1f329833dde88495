// The Q tiles of stream-K, in order, each with its visible KV blocks and its end on the stream-K line.
#pragma once
#include "planner/requests.cuh"
#include "planner/visible.cuh"

struct TileCounts {
  int count = 0;    // of the whole batch
  int longest = 0;  // KV blocks of this thread's longest tile
};

// Lists all Q tiles. A thread handles a request and lists its tiles one after the other, since they are few.
template <class Cta, class Variant>
TileCounts make_tiles(Cta& cta, const PlanParams& p, const Variant& variant, const PlannerScratch& memory,
                      BatchFault& fault) {
  auto cost = [&](int blocks) { return p.item_cost + static_cast<Cost>(blocks) * p.block_cost; };
  TileCounts tiles;
  Cost line = 0;
  RequestScan<Cta, PlanParams> scan(cta, p, fault);
#pragma unroll 1
  for (int first = 0; first < p.requests; first += Cta::THREADS) {
    ScannedRequest own = scan.next(first, fault);
    Cost costs = 0;
#pragma unroll 1
    for (int i = 0; i < own.tiles; ++i) {
      int rows = p.tile_rows.divisor;
      WorkItem item = tile_of_request(p, own.request, i * rows, rows, own.lens, own.kv_token);
      BlockRange visible = visible_blocks(p, variant, item, p.kv_align, false);
      item.kv_begin = visible.begin;
      item.kv_end = visible.end;
      store_item(memory.tiles + ITEM_WORDS * (own.first_tile + i), item);
      costs += cost(visible.end - visible.begin);
      memory.ends[own.first_tile + i] = costs;
      tiles.longest = max(tiles.longest, visible.end - visible.begin);
    }
    Cost all, before = line + cta.exclusive_sum(costs, min(p.requests - first, Cta::THREADS), all);
    line += all;
#pragma unroll 1
    for (int i = 0; i < own.tiles; ++i) memory.ends[own.first_tile + i] += before;
  }
  tiles.count = scan.finish();
  return tiles;
}
