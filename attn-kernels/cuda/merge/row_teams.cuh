// Teams of lanes in a CTA that merges partials: each holds one row at a time, and several may share a row.
#pragma once

#include "merge/partial.cuh"

template <int THREADS>
struct RowTeams {
  static constexpr int COUNT = THREADS / ROW_LANES;

  // Shared memory of the CTA, 16-byte aligned.
  struct Shared {
    float o[COUNT][HEAD_DIM_VO];
    float2 md[COUNT];
  };

  // Merges what `per_row` teams have of a row, in their order. `team`: this thread's; `leader`: the first one of its
  // row. All threads call it, and all teams of the row have the result.
  static void merge(PartialRow& state, int per_row, int team, int leader, Shared& shared) {
    // an early return, as ptxas keeps fewer loads of partials in flight before a branch around the rest
    if (per_row == 1) return;
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
};
