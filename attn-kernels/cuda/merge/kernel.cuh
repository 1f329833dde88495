// attn_merge: merges partials in the order of keys into output rows, where merging is a kernel of its own (after
// prefill, mixed launches and cascades). Grid (merges, CTAs of a merge), MERGE_THREADS threads.
//
// The launch takes as long as its dependent loads: merge, index of the partial, partial. A row of a KV head therefore
// has one team of lanes, and a CTA has as many rows as it has teams, whatever their head is. Then many merges of few
// rows fit into one wave, and a few merges of many rows fill it.
#pragma once

#include "abi/launch_params.cuh"
#include "merge/row_teams.cuh"
#include "schedule/q_tile.cuh"

constexpr int MERGE_THREADS = 128;

class KernelMerger {
  using Teams = RowTeams<MERGE_THREADS>;
  // Partials that a team loads together. Registers hold them.
  static constexpr int PARTIALS_IN_FLIGHT = LANE_VALUES > 8 ? 4 : 8;

 public:
  using Shared = Teams::Shared;

  static void run(const KernelParams& p, const Variant& variant, const MergeItem& merge, Shared& shared) {
    // More partials than are in flight at once are shared by several teams. How many depends on their number alone, and
    // so do the bits of a row. Not where these must not depend on partials after the row's last key either.
    int per_row = 1;
    while (!ROW_INVARIANT_MERGE && per_row < Teams::COUNT && per_row * PARTIALS_IN_FLIGHT < merge.count) per_row *= 2;
    int of_team = (merge.count + per_row - 1) / per_row, at_once = Teams::COUNT / per_row;
    int team = threadIdx.x / ROW_LANES, share = team % per_row, leader = team - share;
    int begin = share * of_team, end = min(begin + of_team, merge.count);
    int rows = QTile(merge, 0).rows * p.kv_heads;
#pragma unroll 1
    for (int first = blockIdx.y * at_once; first < rows; first += gridDim.y * at_once) {
      int index = first + team / per_row;
      bool exists = index < rows;
      index = min(index, rows - 1);  // the warp stays converged for the shuffles of the row hooks
      // heads vary fastest, as in the partials
      int row = index / p.kv_heads, kv_head = index - row * p.kv_heads;
      PartialRow state = merge_partials(p, merge.first, kv_head, row, begin, end);
      Teams::merge(state, per_row, team, leader, shared);
      write_output(p, variant, state, QTile(merge, kv_head).at(p, row), exists && share == 0);
    }
  }

 private:
  // The first row of a merge's partial. `first`: as in MergeItem.
  static int partial_of(const KernelParams& p, int first, int which) {
    if constexpr (MIXED) return mixed(p).merge_parts[first + which];
    return first + which * ITEM_ROWS;
  }

  // Merges the partials from `begin` to `end` of a row.
  static PartialRow merge_partials(const KernelParams& p, int first, int kv_head, int row, int begin, int end) {
    PartialRow state;
#pragma unroll 1
    for (int i = begin; i < end; i += PARTIALS_IN_FLIGHT) {
      // All indices are loaded before the first partial: its loads are in the order of the program, and one that waits
      // for its index would hold back those after it.
      int rows[PARTIALS_IN_FLIGHT];
#pragma unroll
      for (int j = 0; j < PARTIALS_IN_FLIGHT; ++j)
        if (i + j < end) rows[j] = partial_of(p, first, i + j);
      PartialRow parts[PARTIALS_IN_FLIGHT];
#pragma unroll
      for (int j = 0; j < PARTIALS_IN_FLIGHT; ++j)
        if (i + j < end) {
          long long index = partial_index(p, rows[j] + row, kv_head);
          parts[j] = load_partial_l2(p.partial_o + index * HEAD_DIM_VO, p.partial_md + index);
        }
#pragma unroll
      for (int j = 0; j < PARTIALS_IN_FLIGHT; ++j)
        if (i + j < end) state.merge(parts[j]);
    }
    return state;
  }
};

extern "C" __global__ void __launch_bounds__(MERGE_THREADS)
    attn_merge(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant) {
  __shared__ __align__(16) KernelMerger::Shared shared;
  MergeItem merge = p.merges[blockIdx.x];
  if (merge.count == 0) return;  // unused capacity of the grid
  KernelMerger::run(p, variant, merge, shared);
}
