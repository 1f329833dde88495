// Where workers begin, and what lies between their cuts.
#pragma once
#include "plan_line.cuh"
#include "plan_tiles.cuh"

struct Pieces {
  int behind_cuts;  // within tiles
  int merges;       // tiles that are cut
};

// Finds the cuts of a line, and counts them. Threads that are no workers wait.
template <class Cta>
Pieces cut_line(Cta& cta, const PlanParams& p, const PlanMemory& memory, const Tiles& tiles, int longest) {
  if (cta.thread() <= p.workers_most) {
    Line line(p, memory.ends, tiles.count, tiles.line, longest);
#pragma unroll 1
    for (unsigned worker = cta.thread(); worker <= line.workers(); worker += cta.threads()) memory.cuts[worker] = line.cut(worker);
    if (cta.thread() == 0) *memory.used = line.workers();
  }
  cta.sync();

  int entries = *memory.used + 1, threads = cta.threads();
  Cost counted = 0;  // pieces below, merges above
#pragma unroll 1
  for (int first = 0; first < entries; first += threads) {
    int worker = first + static_cast<int>(cta.thread());
    Cut cut = {}, last = {}, next = {};
    if (worker < entries) {
      cut = memory.cuts[worker], last = memory.cuts[max(worker - 1, 0)], next = memory.cuts[min(worker + 1, entries - 1)];
    }
    bool is_new = cut.block > 0 && (cut.tile != last.tile || cut.block != last.block);
    bool opens = is_new && (cut.tile != last.tile || last.block == 0);  // the first within its tile
    Cost own = static_cast<Cost>(opens) << 32 | is_new, sum = own;
    Cost all = sum_before(cta, sum, min(entries - first, threads));
    sum += counted + own;
    counted += all;
    int pieces = static_cast<int>(sum & 0xffffffff), merges = static_cast<int>(sum >> 32);
    if (worker < entries) {
      memory.firsts[worker] = cut.tile + pieces;
      // of the tiles that begin before the next worker does
      unsigned end = min(next.tile + 1, static_cast<unsigned>(tiles.count));
#pragma unroll 1
      for (unsigned tile = worker > 0 ? cut.tile + 1 : 0; tile < end; ++tile) memory.cuts_before(tile) = pieces;
    }
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
