// Merges split-KV partials of a Q tile in the order of keys, into its output rows or into one partial. All THREADS
// threads of a CTA take part.
#pragma once

#include "merge/row_teams.cuh"
#include "schedule/q_tile.cuh"

// The partials that one merge reads: `count` of them, `stride` rows apart.
struct MergedPartials {
  int first, count, stride = TILE_ROWS;  // `first`, `count`: as in MergeItem
};

// PARTIALS_IN_FLIGHT partials are loaded together, to hide the latency of L2.
template <int THREADS, int PARTIALS_IN_FLIGHT>
class RowMerger {
  using Teams = RowTeams<THREADS>;

 public:
  using Shared = typename Teams::Shared;

  // Writes the output rows or, not `finalizes`, a partial in place of the first one.
  static void run(const KernelParams& p, const Variant& variant, MergedPartials partials, bool finalizes,
                  const QTile& q_tile, Shared& shared) {
    // A Q tile of few rows leaves teams idle: then several teams share a row's partials. Not where the order of a row's
    // partials must not depend on the rows beside it.
    int per_row = ROW_INVARIANT_MERGE ? 1 : Teams::COUNT;
    while (per_row > 1 && per_row * q_tile.rows > Teams::COUNT) per_row /= 2;
    int team = threadIdx.x / ROW_LANES, share = team % per_row, leader = team - share;
#pragma unroll 1
    for (int first = 0; first < q_tile.rows; first += Teams::COUNT / per_row) {
      int row = first + team / per_row;
      bool exists = q_tile.has_row(row);
      row = q_tile.clamp_row(row);  // the warp stays converged for the shuffles of the row hooks
      PartialRow state = merge_partials(p, partials, q_tile.kv_head, row, share, per_row);
      Teams::merge(state, per_row, team, leader, shared);
      exists = exists && share == 0;
      if (finalizes) {
        write_output(p, variant, state, q_tile.at(p, row), exists);
      } else {
        __syncwarp();  // all lanes have read (row_max, row_sum) of the first partial, which one of them replaces
        if (exists) store_partial_row(p, state, partials.first + row, q_tile.kv_head);
      }
    }
  }

 private:
  // Merges partials begin, begin + step, ... of a row, in this order.
  static PartialRow merge_partials(const KernelParams& p, MergedPartials partials, int kv_head, int row, int begin,
                                   int step) {
    PartialRow state;
#pragma unroll 1
    for (int i = begin; i < partials.count; i += PARTIALS_IN_FLIGHT * step) {
      PartialRow parts[PARTIALS_IN_FLIGHT];
#pragma unroll
      for (int j = 0; j < PARTIALS_IN_FLIGHT; ++j)
        if (i + j * step < partials.count) {
          long long index = partial_index(p, partials.first + (i + j * step) * partials.stride + row, kv_head);
          parts[j] = load_partial_l2(p.partial_o + index * HEAD_DIM_VO, p.partial_md + index);
        }
#pragma unroll
      for (int j = 0; j < PARTIALS_IN_FLIGHT; ++j) state.merge(parts[j]);  // a partial without keys changes nothing
    }
    return state;
  }
};
