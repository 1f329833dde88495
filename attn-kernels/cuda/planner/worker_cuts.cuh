// Where workers begin, and what lies between their cuts.
#pragma once
#include "planner/stream_k.cuh"

struct Pieces {
  int behind_cuts;  // within tiles
  int merges;       // tiles that are cut
};

// Finds the cuts of a line, and counts them. Threads that are no workers wait.
template <class Cta>
Pieces cut_line(Cta& cta, const PlanParams& p, const PlanMemory& memory, int tiles, int longest) {
  if (static_cast<unsigned>(cta.thread()) <= p.workers_most) {
    Line line(p, memory.ends, tiles, longest);
#pragma unroll 1
    for (unsigned worker = cta.thread(); worker <= line.workers(); worker += Cta::THREADS) memory.cuts[worker] = line.cut(worker);
    if (cta.thread() == 0) *memory.used = line.workers();
  }
  cta.sync();

  int entries = *memory.used + 1;
  Cost counted = 0;  // pieces below, merges above
#pragma unroll 1
  for (int first = 0; first < entries; first += Cta::THREADS) {
    int worker = first + cta.thread();
    Cut cut = {}, last = {};
    if (worker < entries) cut = memory.cuts[worker], last = memory.cuts[worker > 0 ? worker - 1 : 0];
    bool is_new = cut.block > 0 && (cut.tile != last.tile || cut.block != last.block);
    bool opens = is_new && (cut.tile != last.tile || last.block == 0);  // the first within its tile
    Cost all, own = static_cast<Cost>(opens) << 32 | is_new;
    Cost sum = counted + cta.sum_before(own, min(entries - first, Cta::THREADS), all) + own;
    counted += all;
    int pieces = static_cast<int>(sum & 0xffffffff), merges = static_cast<int>(sum >> 32);
    if (worker < entries) memory.firsts[worker] = cut.tile + pieces;
    if (is_new) memory.pieces[pieces - 1] = {cut.tile, cut.block, merges - 1, 0};
    if (opens) memory.first_pieces[merges - 1] = pieces - 1;
  }
  Pieces found = {static_cast<int>(counted & 0xffffffff), static_cast<int>(counted >> 32)};
  if (cta.thread() == 0) {
    memory.pieces[found.behind_cuts] = {~0u, 0, 0, 0};
    memory.first_pieces[found.merges] = found.behind_cuts;
  }
  return found;
}
