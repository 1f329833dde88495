// Many Q tiles are found by the CTAs that do not plan, each of which scans all requests. The CTA that plans waits for
// them. It is the last of the grid, so that they have started before it.
#pragma once
#include "planner/tile_splits.cuh"

// More tiles are found by the other CTAs: lanes of a warp wait for each other's searches. As `TILES_OF_A_CTA` of
// attn-kernels/src/launch/planner_scratch.rs.
constexpr int TILES_OF_A_CTA = 64;
// In `PlanStatus::copied`.
constexpr int FOUND_SHIFT = 16;

// Reports that this CTA, which does not plan, has found its tiles.
template <class Cta>
void report_found_tiles(Cta& cta, const PlanParams& p) {
  __threadfence();
  cta.sync();
  if (cta.thread() == 0) atomicAdd(&p.status->copied, 1u << FOUND_SHIFT);
}

// Finds all tiles with `find`, in the CTA that plans, `parts`, or in the others. All CTAs call it for a batch without
// faults.
template <class Cta, class Find>
void find_tiles(Cta& cta, const PlanParams& p, SplitTile* tiles, int count, int part, int parts, const Find& find) {
  constexpr int WARPS = Cta::THREADS / 32;
  bool plans = part == parts, by_others = parts > 0 && count > TILES_OF_A_CTA && p.found != nullptr;
  auto* found = static_cast<SplitTile*>(p.found);
  if (plans != by_others) {
    int step = plans ? 1 : parts;
    // neighbours are in different warps, since lanes of a warp wait for each other's searches
    int own = cta.thread() / 32 + cta.thread() % 32 * WARPS;
#pragma unroll 1
    for (int number = (plans ? 0 : part) + own * step; number < count; number += Cta::THREADS * step) {
      SplitTile tile = find(number);
      (plans ? tiles : found)[number] = tile;
    }
  }
  if (!plans) return report_found_tiles(cta, p);
  if (by_others) {
    auto* report = reinterpret_cast<volatile unsigned*>(&p.status->copied);
    if (cta.thread() == 0) {
      while (*report >> FOUND_SHIFT < static_cast<unsigned>(parts)) {
      }
      __threadfence();
    }
    cta.sync();
#pragma unroll 2
    for (int number = cta.thread(); number < count; number += Cta::THREADS) tiles[number] = found[number];
  }
  cta.sync();
}
