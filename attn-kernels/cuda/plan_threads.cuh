// The threads of a CTA that plans: barriers, and sums over them. How many there are is the launch's to say: a power of two, whole warps.
#pragma once

class PlanThreads {
  static constexpr unsigned ALL_LANES = 0xffffffff;
  static constexpr int MOST_WARPS = 32;
  using Sum = unsigned long long;

 public:
  struct Shared {
    Sum sums[2][2][MOST_WARPS];
    Sum least;
    int most[MOST_WARPS];
  };

 private:
  Shared& shared_;
  int turn_ = 0;

  static int lane() { return thread() % 32; }
  static int warp() { return thread() / 32; }

  // A lane's sums and those of the lane so many before it.
  template <int N>
  static void add_lane_before(Sum (&sums)[N], int step) {
#pragma unroll
    for (Sum& sum : sums) {
      Sum other = __shfl_up_sync(ALL_LANES, sum, step);
      sum += lane() >= step ? other : 0;
    }
  }

 public:
  explicit PlanThreads(Shared& shared) : shared_(shared) {}

  static unsigned thread() { return threadIdx.x; }
  static unsigned threads() { return blockDim.x; }
  static void sync() { __syncthreads(); }
  static bool any(bool mine) { return __syncthreads_or(mine); }

  // Of each value, the sum over the threads before this one, of which the first `count` have any; and those over all. Two values at most.
  template <int N>
  void sums_before(Sum (&values)[N], int count, Sum (&all)[N]) {
    auto& of_warps = shared_.sums[turn_];  // by turns: who is late still reads those before
    turn_ ^= 1;
    int warps = (count + 31) / 32;
    Sum sums[N] = {}, before[N] = {};
    if (warp() < warps) {
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] = values[i];
#pragma unroll
      for (int step = 1; step < 32; step *= 2) add_lane_before(sums, step);
      if (lane() == 31) {
#pragma unroll
        for (int i = 0; i < N; ++i) of_warps[i][warp()] = sums[i];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) before[i] = lane() < warps ? of_warps[i][lane()] : 0;
#pragma unroll 1
    for (int step = 1; step < warps; step *= 2) add_lane_before(before, step);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      all[i] = __shfl_sync(ALL_LANES, before[i], max(warps - 1, 0));
      Sum of_those = __shfl_sync(ALL_LANES, before[i], max(warp() - 1, 0));
      values[i] = (warp() > 0 ? of_those : 0) + sums[i] - values[i];
    }
  }

  // Whether it is so for any thread, and the greatest value, not below 0. Once.
  bool any_and_most(bool mine, int value, int& most) {
    value = __reduce_max_sync(ALL_LANES, value);
    if (lane() == 0) shared_.most[warp()] = value;
    bool is_so = any(mine);
    most = __reduce_max_sync(ALL_LANES, lane() < static_cast<int>(threads() / 32) ? shared_.most[lane()] : 0);
    return is_so;
  }

  // The least value. Once.
  Sum least(Sum value) {
    if (thread() == 0) shared_.least = ~0ull;
    __syncthreads();
    if (value != ~0ull) atomicMin(&shared_.least, value);
    __syncthreads();
    return shared_.least;
  }
};
