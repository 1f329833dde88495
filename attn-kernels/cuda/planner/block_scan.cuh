// CTA-wide collectives of the planner: a prefix sum (block scan), reductions and barriers over COUNT threads.
#pragma once

template <int COUNT>
class CtaCollectives {
  static constexpr unsigned ALL_LANES = 0xffffffff;
  static constexpr int WARPS = COUNT / 32;
  using Sum = unsigned long long;

 public:
  static constexpr int THREADS = COUNT, MAXIMA = 4;

  struct TempStorage {
    Sum sums[2][WARPS];
    Sum min;
    int max[MAXIMA];
  };

 private:
  TempStorage& storage_;
  int buffer_ = 0;

  // One step of a warp-wide inclusive scan.
  static Sum add_preceding_lane(Sum sum, int step) {
    Sum other = __shfl_up_sync(ALL_LANES, sum, step);
    return thread() % 32 >= step ? sum + other : sum;
  }

 public:
  explicit CtaCollectives(TempStorage& shared) : storage_(shared) {
    if (thread() == 0) shared.min = ~0ull;
    if (thread() < MAXIMA) shared.max[thread()] = 0;
    __syncthreads();
  }

  static int thread() { return threadIdx.x; }
  static void sync() { __syncthreads(); }
  static bool any(bool flag) { return __syncthreads_or(flag); }

  // The sum of the values of the preceding threads, and in `all` that of all threads. Threads from `count` on have no
  // value.
  Sum exclusive_sum(Sum value, int count, Sum& all) {
    Sum* sums = storage_.sums[buffer_];  // double buffered: slow warps may still read the previous sums
    buffer_ ^= 1;
    int lane = thread() % 32, warp = thread() / 32, warps = (count + 31) / 32;
    Sum sum = 0;
    if (warp < warps) {
      sum = value;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) sum = add_preceding_lane(sum, step);
      if (lane == 31) sums[warp] = sum;
    }
    __syncthreads();
    Sum warp_sum = lane < warps ? sums[lane] : 0;
#pragma unroll 1
    for (int step = 1; step < warps; step *= 2) warp_sum = add_preceding_lane(warp_sum, step);
    all = __shfl_sync(ALL_LANES, warp_sum, max(warps - 1, 0));
    Sum before = __shfl_sync(ALL_LANES, warp_sum, max(warp - 1, 0));
    return (warp > 0 ? before : 0) + sum - value;
  }

  // The sum of the values of the numbers from 0 to before `count`. `value(number)` is that of one, which a thread has;
  // then `take(number, before, value)` gets the sum of those before it. Every thread of a round has called `value` when
  // one calls `take`.
  template <class V, class T>
  Sum scan(int count, const V& value, const T& take) {
    Sum sum = 0;
#pragma unroll 1
    for (int first = 0; first < count; first += THREADS) {
      int number = first + thread();
      Sum all, own = number < count ? value(number) : 0;
      Sum before = sum + exclusive_sum(own, min(count - first, THREADS), all);
      sum += all;
      if (number < count) take(number, before, own);
    }
    return sum;
  }

  // Calls `f` with the numbers from `first` to before `end`, a thread each: the first in warp `warp` modulo the warps.
  template <class T, class F>
  static void each(T first, T end, const F& f, int warp = 0) {
    int own = warp == 0 ? thread() : (thread() + THREADS - warp * 32 % THREADS) % THREADS;
#pragma unroll 1
    for (T number = first + own; number < end; number += THREADS) f(number);
  }

  // Notes a value for `max_of` a number below MAXIMA.
  void note_max(int value, int number) {
    value = __reduce_max_sync(ALL_LANES, value);
    if (value > 0 && thread() % 32 == 0) atomicMax(&storage_.max[number], value);
  }

  // The maximum of the values that were noted before a barrier, and 0.
  int max_of(int number) const { return storage_.max[number]; }

  // Whether the flag of any thread is set, and the maximum of the values and 0. May be called once for each number
  // below MAXIMA.
  bool any_and_max(bool flag, int value, int& max_value, int number = 0) {
    note_max(value, number);
    bool result = any(flag);
    max_value = max_of(number);
    return result;
  }

  // The minimum of the values. May be called once.
  Sum min_of_all(Sum value) {
    if (value != ~0ull) atomicMin(&storage_.min, value);
    __syncthreads();
    return storage_.min;
  }
};
