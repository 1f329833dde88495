// Merges the split-KV partials of a Q tile in the order of keys and writes its output rows. All THREADS threads of a
// CTA take part.
#pragma once

#include "merge/partial.cuh"
#include "schedule/q_tile.cuh"

// The partials that one merge reads.
struct MergedPartials {
  int first, count;  // as in MergeItem

  // The row of partial n that belongs to the first row of the merge.
  int row(const KernelParams& p, int n) const {
    return MIXED ? mixed(p).merge_parts[first + n] : first + n * TILE_ROWS;
  }
};

// PARTIALS_IN_FLIGHT partials are loaded together, to hide the latency of L2.
template <int THREADS, int PARTIALS_IN_FLIGHT>
class RowMerger {
  static constexpr int ROW_TEAMS = THREADS / ROW_LANES;  // teams of the lanes that hold one row

 public:
  // Shared memory of the CTA, 16-byte aligned.
  struct Shared {
    float o[ROW_TEAMS][HEAD_DIM_VO];
    float2 md[ROW_TEAMS];
  };

  static void run(const KernelParams& p, const Variant& variant, MergedPartials partials, const QTile& q_tile,
                  Shared& shared) {
    // A Q tile of few rows leaves teams idle: then several teams share a row's partials, and the first of them
    // merges their results in order.
    int per_row = ROW_TEAMS;
    while (per_row > 1 && per_row * q_tile.rows > ROW_TEAMS) per_row /= 2;
    int team = threadIdx.x / ROW_LANES, share = team % per_row, leader = team - share;
#pragma unroll 1
    for (int first = 0; first < q_tile.rows; first += ROW_TEAMS / per_row) {
      int row = first + team / per_row;
      bool exists = q_tile.has_row(row);
      row = q_tile.clamp_row(row);  // the warp stays converged for the shuffles of the row hooks
      PartialRow state = merge_partials(p, partials, q_tile.kv_head, row, share, per_row);
      if (per_row > 1) {
        store_partial(state, shared.o[team], &shared.md[team]);
        __syncthreads();
        auto of = [&](int which) {
          return load_partial([&](int dim) { return shared.o[which] + dim; }, &shared.md[which]);
        };
        state = of(leader);
#pragma unroll 1
        for (int other = 1; other < per_row; ++other) state.merge(of(leader + other));
        __syncthreads();
      }
      write_output(p, variant, state, q_tile.at(p, row), exists && share == 0);
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
          long long index = partial_index(p, partials.row(p, i + j * step) + row, kv_head);
          parts[j] = load_partial_l2(p.partial_o + index * HEAD_DIM_VO, p.partial_md + index);
        }
#pragma unroll
      for (int j = 0; j < PARTIALS_IN_FLIGHT; ++j) state.merge(parts[j]);  // a partial without keys changes nothing
    }
    return state;
  }
};
