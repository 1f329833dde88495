// Finds the token, by ids, up to which weights exceed a number.
#pragma once
#include "sampling/select.cuh"

struct Found {
  int id;
  float value;
};

template <int THREADS, class Weight>
struct Walker {
  Team<THREADS>& team;
  const Row<THREADS>& row;
  const Weight weight;  // of a value and an id
  u64 total = 0, before = 0, slice = 0;

  Walker(Team<THREADS>& t, const Row<THREADS>& of, const Weight& w) : team(t), row(of), weight(w) {}

  // Sums up all weights. `least`: below it is no weight.
  u64 sum(float least) {
    u64 mine = 0;
    row.each([&](int i, const float(&x)[4]) {
      if (!(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])) >= least)) return;
#pragma unroll
      for (int j = 0; j < 4; ++j) mine += weight(x[j], row.first + i + j);
    });
    SampleShared& s = team.s;
    mine = team.warp_sum(mine);
    if (team.lane == 0) s.segment[team.warp] = mine;
    __syncthreads();
    slice = team.warp_sum(team.lane < team.WARPS ? s.segment[team.lane] : 0);
    const u64* slices = team.tell(slice);
    before = 0, total = 0;
#pragma unroll
    for (int cta = 0; cta < CLUSTER_CTAS; ++cta) {
      if (cta < static_cast<int>(team.rank)) before += slices[cta];
      total += slices[cta];
    }
    return total;
  }

  // The first token up to which weights exceed `number`, which is below the sum.
  Found find(u64 number) {
    SampleShared& s = team.s;
    bool here = before <= number && number - before < slice;
    if (threadIdx.x == 0) s.found = 0;
    __syncthreads();
    if (here) {
      u64 first = before;
      int warp = 0;
      while (number - first >= s.segment[warp]) first += s.segment[warp++];
      if (warp == team.warp) walk(number, first);
    }
    __syncthreads();
    const u64* all = team.tell(s.found, here);
    u64 result = 0;
#pragma unroll
    for (int cta = 0; cta < CLUSTER_CTAS; ++cta)
      if (all[CLUSTER_CTAS + cta]) result = all[cta];
    return {static_cast<int>(result), __uint_as_float(static_cast<unsigned>(result >> 32))};
  }

 private:
  void walk(u64 number, u64 first) {
    for (int at = row.begin; at < row.end; at += 128) {
      int i = at + team.lane * 4;
      float x[4];
      row.read(i, x);
      u64 w[4], mine = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) mine += w[j] = weight(x[j], row.first + i + j);
      u64 through = mine;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        u64 other = __shfl_up_sync(0xffffffffu, through, step);
        if (team.lane >= step) through += other;
      }
      u64 step_sum = __shfl_sync(0xffffffffu, through, 31);
      if (number - first < step_sum) {
        u64 start = first + through - mine;
        if (start <= number && number - start < mine) {
          int j = 0;
#pragma unroll
          for (int k = 0; k < 3; ++k)
            if (j == k && number - start >= w[k]) start += w[k], ++j;
          float value = j == 0 ? x[0] : j == 1 ? x[1] : j == 2 ? x[2] : x[3];
          team.s.found = static_cast<u64>(__float_as_uint(value)) << 32 | static_cast<unsigned>(row.first + i + j);
        }
        return;
      }
      first += step_sum;
    }
  }
};

template <int THREADS>
__noinline__ int Selector<THREADS>::tie(float value, u64 n) {
  auto weight = [&](float x, int) -> u64 { return x == value; };
  Walker<THREADS, decltype(weight)> walker(team, row, weight);
  walker.sum(value);
  return walker.find(n - 1).id;
}
