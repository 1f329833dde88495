// The partial states of a block of queries, in slot order, become its output rows. All threads of a CTA of THREADS take part.
#pragma once

#include "merge/partial.cuh"
#include "schedule/q_tile.cuh"

// Those of a merge.
struct Slots {
  int first, count;

  // Where state n of `first` .. `first + count` is.
  static int at(const KernelParams& p, int n) { return MIXED ? mixed(p).merge_parts[n] : n; }
};

// AT_ONCE slots are asked for together, since a slot is far away and little work.
template <int THREADS, int AT_ONCE>
class RowMerger {
  static constexpr int TEAMS = THREADS / ROW_LANES;  // lanes that hold a row together

 public:
  // What the CTA needs in shared memory, 16-byte aligned.
  struct Shared {
    float sums[TEAMS][VALUE_DIM];
    float2 md[TEAMS];
  };

  static void run(const KernelParams& p, const Variant& variant, Slots slots, const QueryBlock& block, Shared& shared) {
    // A block of few rows leaves teams over: they take a row's slots in turns, and each then joins what all have.
    int per_row = TEAMS;
    while (per_row > 1 && per_row * block.rows > TEAMS) per_row /= 2;
    int team = threadIdx.x / ROW_LANES, turn = team % per_row, leader = team - turn;
#pragma unroll 1
    for (int first = 0; first < block.rows; first += TEAMS / per_row) {
      int row = first + team / per_row;
      bool exists = block.has(row);
      row = block.existing(row);  // the warp stays together for the shuffles of the row hooks
      PartialRow state = merge_slots(p, slots, block.kv_head, row, turn, per_row);
      if (per_row > 1) {
        store_partial(state, shared.sums[team], &shared.md[team]);
        __syncthreads();
        auto of = [&](int which) {
          return load_partial([&](int dim) { return shared.sums[which] + dim; }, &shared.md[which]);
        };
        state = of(leader);
#pragma unroll 1
        for (int other = 1; other < per_row; ++other) state.absorb(of(leader + other));
        __syncthreads();
      }
      write_output(p, variant, state, block.at(p, row), exists && turn == 0);
    }
  }

 private:
  // Slots first + begin, first + begin + step, ... of a row, merged in this order.
  static PartialRow merge_slots(const KernelParams& p, Slots slots, int kv_head, int row, int begin, int step) {
    PartialRow state;
#pragma unroll 1
    for (int i = begin; i < slots.count; i += AT_ONCE * step) {
      PartialRow parts[AT_ONCE];
#pragma unroll
      for (int j = 0; j < AT_ONCE; ++j)
        if (i + j * step < slots.count) {
          long long index = partial_index(p, slots.at(p, slots.first + i + j * step), kv_head, row);
          parts[j] = load_arrived(p.partial_o + index * VALUE_DIM, p.partial_md + index);
        }
#pragma unroll
      for (int j = 0; j < AT_ONCE; ++j) state.absorb(parts[j]);  // one of no keys changes nothing
    }
    return state;
  }
};
