// Computes the cut at which every stream-K worker begins, and numbers the KV splits and merges that the cuts create, by
// a prefix sum over the workers.
#pragma once
#include "planner/stream_k.cuh"

struct SplitCounts {
  int in_tiles;   // distinct cuts within a tile
  int cut_tiles;  // tiles that are cut
};

// Cuts the line of all tiles into workers. Threads without a worker wait at the barrier.
template <class Cta>
SplitCounts cut_into_workers(Cta& cta, const lang::stream_k::Costs& costs, const LineCuts& memory, int tiles,
                             int longest) {
  if (tiles == 0) {
    if (cta.thread() == 0) *memory.used_workers = 0, *memory.splits = {~0u, 0, 0, 0}, *memory.first_splits = 0;
    return {};
  }
  if (static_cast<unsigned>(cta.thread()) <= costs.max_workers) {
    StreamK line(costs, memory.ends, tiles, longest);
#pragma unroll 1
    for (unsigned worker = cta.thread(); worker <= line.workers(); worker += Cta::THREADS)
      memory.cuts[worker] = line.cut(worker);
    if (cta.thread() == 0) *memory.used_workers = line.workers();
  }
  cta.sync();

  int entries = *memory.used_workers + 1;
  Cost counted = 0;  // splits in the lower 32 bits, cut tiles in the upper
#pragma unroll 1
  for (int first = 0; first < entries; first += Cta::THREADS) {
    int worker = first + cta.thread();
    Cut cut = {}, last = {};
    if (worker < entries) cut = memory.cuts[worker], last = memory.cuts[worker > 0 ? worker - 1 : 0];
    bool is_new = cut.block > 0 && (cut.tile != last.tile || cut.block != last.block);
    bool opens = is_new && (cut.tile != last.tile || last.block == 0);  // the first cut within its tile
    Cost all, own = static_cast<Cost>(opens) << 32 | is_new;
    Cost sum = counted + cta.exclusive_sum(own, min(entries - first, Cta::THREADS), all) + own;
    counted += all;
    int splits = static_cast<int>(sum & 0xffffffff), cut_tiles = static_cast<int>(sum >> 32);
    if (worker < entries) memory.first_items[worker] = cut.tile + splits;
    if (is_new) memory.splits[splits - 1] = {cut.tile, cut.block, cut_tiles - 1, 0};
    if (opens) memory.first_splits[cut_tiles - 1] = splits - 1;
  }
  SplitCounts found = {static_cast<int>(counted & 0xffffffff), static_cast<int>(counted >> 32)};
  if (cta.thread() == 0) {
    memory.splits[found.in_tiles] = {~0u, 0, 0, 0};
    memory.first_splits[found.cut_tiles] = found.in_tiles;
  }
  return found;
}
