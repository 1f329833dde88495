// A row of any length in f32 in shared memory, which a warp processes together: the type that row hooks work on when
// keys or values are appended.
#pragma once
#include "lang/lang.cuh"
#include "memory/row.cuh"

// Lane i processes elements i, i + 32, ... Every combinator begins and ends with a warp barrier.
struct SmemRow {
  float* x;
  int values;

  static int lane() { return threadIdx.x % 32; }
  int dim() const { return values; }

  template <class F>
  void map(F f) {
    __syncwarp();
    for (int d = lane(); d < values; d += 32) x[d] = f(d, x[d]);
    __syncwarp();
  }
  template <class T, class F>
  void zip(T t, F f) {
    map([&](int d, float value) { return f(d, value, t(d)); });
  }
  template <class F>
  float dot(F f) const {
    return total([&](int d, float value) { return value * f(d); });
  }
  float sum() const {
    return total([](int, float value) { return value; });
  }
  float sum_sq() const {
    return total([](int, float value) { return value * value; });
  }
  float max_abs() const {
    __syncwarp();
    float largest = 0;
    for (int d = lane(); d < values; d += 32) largest = fmaxf(largest, fabsf(x[d]));
    return max_of_neighbours<32>(largest);
  }
  template <class F>
  void rotate_half(int rot, F f) {
    int half = min(rot, values) / 2;
    rotate(half, f, [half](int pair) { return make_int2(pair, pair + half); });
  }
  template <class F>
  void rotate_pairs(int rot, F f) {
    rotate(min(rot, values) / 2, f, [](int pair) { return make_int2(2 * pair, 2 * pair + 1); });
  }

 private:
  template <class F>
  float total(F f) const {
    __syncwarp();
    float sum = 0;
    for (int d = lane(); d < values; d += 32) sum += f(d, x[d]);
    return sum_of_neighbours<32>(sum);
  }
  template <class F, class P>
  void rotate(int pairs, F f, P pair_dims) {
    __syncwarp();
    for (int pair = lane(); pair < pairs; pair += 32) {
      auto cos_sin = f(pair);
      int2 at = pair_dims(pair);
      float a = x[at.x], b = x[at.y];
      x[at.x] = fmaf(-b, cos_sin.y, a * cos_sin.x);
      x[at.y] = fmaf(a, cos_sin.y, b * cos_sin.x);
    }
    __syncwarp();
  }
};
