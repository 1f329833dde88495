// Sums and maxima over lanes of a warp. All of its lanes call them together.
#pragma once

constexpr unsigned ALL_LANES = 0xffffffffu;

// Combines what the lanes hold whose index has the same remainder by STRIDE, a power of two.
template <int STRIDE, class T, class F>
inline T reduce_across(T x, F combine) {
#pragma unroll
  for (int step = STRIDE; step < 32; step *= 2) x = combine(x, __shfl_xor_sync(ALL_LANES, x, step));
  return x;
}
template <int STRIDE>
inline float sum_across(float x) {
  return reduce_across<STRIDE>(x, [](float a, float b) { return a + b; });
}
template <int STRIDE>
inline float max_across(float x) {
  return reduce_across<STRIDE>(x, [](float a, float b) { return fmaxf(a, b); });
}

// Combines what COUNT neighbouring lanes hold, a power of two of them.
template <int COUNT, class T, class F>
inline T reduce_neighbours(T x, F combine) {
#pragma unroll
  for (int step = COUNT / 2; step > 0; step /= 2) x = combine(x, __shfl_xor_sync(ALL_LANES, x, step));
  return x;
}
template <int COUNT, class T>
inline T sum_of_neighbours(T x) {
  return reduce_neighbours<COUNT>(x, [](T a, T b) { return a + b; });
}
template <int COUNT>
inline float max_of_neighbours(float x) {
  return reduce_neighbours<COUNT>(x, [](float a, float b) { return fmaxf(a, b); });
}

// The sum of what this lane and those before it hold. `lane`: the index of this lane.
template <class T>
inline T sum_through(T x, int lane) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    T other = __shfl_up_sync(ALL_LANES, x, step);
    if (lane >= step) x += other;
  }
  return x;
}
