// The threads of a CTA that plans, so many of them: barriers, and sums over them.
#pragma once

template <int COUNT>
class PlanThreads {
  static constexpr unsigned ALL_LANES = 0xffffffff;
  static constexpr int WARPS = COUNT / 32;
  using Sum = unsigned long long;

 public:
  static constexpr int THREADS = COUNT;

  struct Shared {
    Sum sums[2][WARPS];
    Sum least;
    int most;
  };

 private:
  Shared& shared_;
  int turn_ = 0;

  // A lane's sum and that of the lane so many before it.
  static Sum with_lane_before(Sum sum, int step) {
    Sum other = __shfl_up_sync(ALL_LANES, sum, step);
    return thread() % 32 >= step ? sum + other : sum;
  }

 public:
  explicit PlanThreads(Shared& shared) : shared_(shared) {
    if (thread() == 0) shared.least = ~0ull, shared.most = 0;
    __syncthreads();
  }

  static int thread() { return threadIdx.x; }
  static void sync() { __syncthreads(); }
  static bool any(bool mine) { return __syncthreads_or(mine); }

  // The values of the threads before this one, of which the first `count` have any; and those of all.
  Sum sum_before(Sum value, int count, Sum& all) {
    Sum* sums = shared_.sums[turn_];  // by turns: who is late still reads those before
    turn_ ^= 1;
    int lane = thread() % 32, warp = thread() / 32, warps = (count + 31) / 32;
    Sum sum = 0;
    if (warp < warps) {
      sum = value;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) sum = with_lane_before(sum, step);
      if (lane == 31) sums[warp] = sum;
    }
    __syncthreads();
    Sum of_warps = lane < warps ? sums[lane] : 0;
#pragma unroll 1
    for (int step = 1; step < warps; step *= 2) of_warps = with_lane_before(of_warps, step);
    all = __shfl_sync(ALL_LANES, of_warps, max(warps - 1, 0));
    Sum before = __shfl_sync(ALL_LANES, of_warps, max(warp - 1, 0));
    return (warp > 0 ? before : 0) + sum - value;
  }

  // Whether it is so for any thread, and the greatest value, not below 0. Once.
  bool any_and_most(bool mine, int value, int& most) {
    value = __reduce_max_sync(ALL_LANES, value);
    if (value > 0 && thread() % 32 == 0) atomicMax(&shared_.most, value);
    bool is_so = any(mine);
    most = shared_.most;
    return is_so;
  }

  // The least value. Once.
  Sum least(Sum value) {
    if (value != ~0ull) atomicMin(&shared_.least, value);
    __syncthreads();
    return shared_.least;
  }
};
