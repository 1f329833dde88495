// attn_merge: the partial states of a block of queries, in slot order, become its output rows. Follows prefill and decode alike.
// Grid (merges, kv_heads), MERGE_THREADS threads.
#pragma once

#include "partial.cuh"
#include "query_block.cuh"

constexpr int MERGE_THREADS = 128;
constexpr int MERGE_TEAMS = MERGE_THREADS / ROW_LANES;  // lanes that hold a row together
// A tile of few rows leaves teams over: they take a row's slots in turns, and each then joins what all have.
constexpr int TEAMS_PER_ROW = TILE_ROWS >= MERGE_TEAMS ? 1 : MERGE_TEAMS / TILE_ROWS;
constexpr int ROWS_AT_ONCE = MERGE_TEAMS / TEAMS_PER_ROW;

// Slots first + begin, first + begin + step, ... of a row, merged in this order. A slot is far away and little work, so
// several are asked for at once.
inline PartialRow merge_slots(const KernelParams& p, const MergeItem& item, int kv_head, int row, int begin, int step) {
  constexpr int AT_ONCE = 8;
  PartialRow state;
#pragma unroll 1
  for (int i = begin; i < item.count; i += AT_ONCE * step) {
    PartialRow parts[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j)
      if (i + j * step < item.count) {
        long long index = partial_index(p, item.first + i + j * step, kv_head, row);
        parts[j] = load_partial(p.partial_o + index * HEAD_DIM, p.partial_md + index);
      }
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) state.absorb(parts[j]);  // one of no keys changes nothing
  }
  return state;
}

extern "C" __global__ void __launch_bounds__(MERGE_THREADS)
    attn_merge(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant) {
  __shared__ __align__(16) float sums[MERGE_TEAMS][HEAD_DIM];
  __shared__ float2 md[MERGE_TEAMS];
  MergeItem item = p.merges[blockIdx.x];
  QueryBlock block(item, blockIdx.y);
  int team = threadIdx.x / ROW_LANES;
  int turn = team % TEAMS_PER_ROW;

  for (int first = 0; first < block.rows; first += ROWS_AT_ONCE) {
    int row = first + team / TEAMS_PER_ROW;
    bool exists = block.has(row);
    row = block.existing(row);  // the warp stays together for the shuffles of the row hooks
    PartialRow state = merge_slots(p, item, block.kv_head, row, turn, TEAMS_PER_ROW);
    if constexpr (TEAMS_PER_ROW > 1) {
      store_partial(state, sums[team], &md[team]);
      __syncthreads();
      int leader = team - turn;
      state = load_partial(sums[leader], &md[leader]);
#pragma unroll
      for (int other = 1; other < TEAMS_PER_ROW; ++other) state.absorb(load_partial(sums[leader + other], &md[leader + other]));
      __syncthreads();
    }
    write_output(p, variant, state, block.at(p, row), exists && turn == 0);
  }
}
