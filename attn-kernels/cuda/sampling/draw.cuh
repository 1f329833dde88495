// The mass of what a cut has, and the n-th of equal tokens.
#pragma once
#include "sampling/select.cuh"

// What tokens weigh: what `cut` has its mass, or for `ties` a token of its last value 1.
struct Weights {
  Cut cut;
  bool ties;
  template <class Row>
  u64 of(const Row& row, float x, int id) const {
    if (ties) return x == cut.value;
    return cut.has(x, id) ? row.mass(x) : 0;
  }
};

template <int THREADS, class Row>
struct Walker {
  Team<THREADS>& team;
  const Row& row;
  u64 before = 0, slice = 0;

  Walker(Team<THREADS>& t, const Row& of) : team(t), row(of) {}

  // The sum of all weights.
  u64 sum(Weights weights) {
    u64 mine = 0;
    row.each([&](int i, const float(&x)[4]) {
      if (!(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])) >= weights.cut.value)) return;
#pragma unroll
      for (int j = 0; j < 4; ++j) mine += weights.of(row, x[j], row.first + i + j);
    });
    SampleShared& s = team.s;
    mine = team.warp_sum(mine);
    if (team.lane == 0) s.segment[team.warp] = mine;
    __syncthreads();
    slice = team.warp_sum(team.lane < team.WARPS ? s.segment[team.lane] : 0);
    return team.sum_slices(slice, before);
  }

  // The first token up to which the weights of the last `sum` exceed `number`, which is below the sum.
  Token find(Weights weights, u64 number) {
    SampleShared& s = team.s;
    bool here = before <= number && number - before < slice;
    if (threadIdx.x == 0) s.found = 0;
    __syncthreads();
    if (here) {
      u64 segment = team.lane < team.WARPS ? s.segment[team.lane] : 0;
      u64 first = before + sum_through(segment, team.lane) - segment;
      first = __shfl_sync(0xffffffffu, first, team.warp), segment = __shfl_sync(0xffffffffu, segment, team.warp);
      if (first <= number && number - first < segment) walk(weights, number, first);
    }
    __syncthreads();
    u64 told[2] = {s.found, here};
    const u64* all = team.tell(told);
    u64 result = 0;
#pragma unroll
    for (int cta = 0; cta < CLUSTER_CTAS; ++cta)
      if (all[CLUSTER_CTAS + cta]) result = all[cta];
    return token_of(result);
  }

 private:
  void walk(Weights weights, u64 number, u64 first) {
#pragma unroll 1
    for (int at = row.begin; at < row.end; at += 128) {
      int i = at + team.lane * 4;
      float x[4];
      row.read(i, x);
      u64 w[4], mine = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) mine += w[j] = weights.of(row, x[j], row.first + i + j);
      u64 through = sum_through(mine, team.lane);
      u64 step_sum = __shfl_sync(0xffffffffu, through, 31);
      if (number - first < step_sum) {
        u64 start = first + through - mine;
        if (start <= number && number - start < mine) {
          int j = 0;
#pragma unroll
          for (int k = 0; k < 3; ++k)
            if (j == k && number - start >= w[k]) start += w[k], ++j;
          float value = j == 0 ? x[0] : j == 1 ? x[1] : j == 2 ? x[2] : x[3];
          team.s.found = Token{row.first + i + j, value}.packed();
        }
        return;
      }
      first += step_sum;
    }
  }
};
