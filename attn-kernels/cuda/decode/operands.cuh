// Operands of decode's two products, keys and values first: S^T = K Q^T and O^T = V^T P^T, so that few query rows fill the short
// side of the tensor cores' shape and many keys the long one.
//
// Dims are taken 32 at a time, in two steps of 16. Of 16-bit elements step u has dims 16 u ..; of fp8 a lane finds four neighbours in
// a register, and step u has two of every four. Which dims meet in a step is of no matter as long as queries follow (`query_dim`).
// Of an odd number of 16s the last is a step of its own, of which a register's two halves are the lower and the upper dims.
#pragma once

#include "decode/kv_pipeline.cuh"

// First of the two dims that this lane holds of a query in the lower (upper: `high`) half of step u of the k-th 32.
template <class E>
inline int query_dim(int k, int u, int high) {
  int lane = threadIdx.x % 4;
  if (IS_FP8<E> && 32 * k + 16 >= HEAD_DIM) return 32 * k + 4 * lane + 2 * high;
  return IS_FP8<E> ? 32 * k + 16 * high + 4 * lane + 2 * u : 32 * k + 16 * u + 8 * high + 2 * lane;
}

// The dim of this lane's accumulators of outputs, of the t-th 16 dims, in the upper eight rows (`high`) or the lower.
template <class E>
inline int output_dim(int t, int high) {
  int row = threadIdx.x % 32 / 4;
  return 16 * t + (IS_FP8<E> ? 2 * row + high : row + 8 * high);
}

// 16 keys from `first`, dims 32 k ..: both steps, or the one that there is.
template <class E>
inline void load_keys(unsigned (&a)[2][4], StepKeys<E> tile, int first, int k) {
  bool both = 32 * k + 16 < HEAD_DIM;
  int lane = threadIdx.x % 32;
  unsigned mine = tile.offset(lane % 16, lane / 16 * 16);
  if constexpr (IS_FP8<E>) {
    if (!both) {
      unsigned bytes[2];
      load_two_matrices(bytes, tile.behind(mine, first, 32 * k));
#pragma unroll
      for (int i = 0; i < 4; ++i) a[0][i] = fp8_to_f16<E>(i < 2 ? bytes[i] & 0xffff : bytes[i - 2] >> 16);
      return;
    }
    unsigned bytes[4];
    load_matrices(bytes, tile.behind(mine, first, 32 * k));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[0][i] = fp8_to_f16<E>(bytes[i] & 0xffff);
      a[1][i] = fp8_to_f16<E>(bytes[i] >> 16);
    }
  } else {
    load_matrices(a[0], tile.behind(mine, first, 64 * k));
    if (both) load_matrices(a[1], tile.behind(mine, first, 64 * k + 32));
  }
}

// Values of 16 keys from `first`, dims 32 k ..: both 16s of dims, or the one that there is.
template <class E>
inline void load_values(unsigned (&a)[2][4], StepValues<E> tile, int first, int k) {
  bool both = 32 * k + 16 < VALUE_DIM;
  int lane = threadIdx.x % 32;
  if constexpr (IS_FP8<E>) {
    unsigned bytes[4], from = tile.behind(tile.offset(lane % 16, lane / 16 * 16), first, 32 * k);
    if (both) {
      load_matrices_transposed(bytes, from);
    } else {
      unsigned of_one[2];
      load_two_matrices_transposed(of_one, from);
      bytes[0] = of_one[0];
      bytes[1] = of_one[1];
    }
#pragma unroll
    for (int i = 0; i < (both ? 4 : 2); ++i) {
      unsigned keys = __byte_perm(bytes[i], 0, 0x3120);  // two dims of two keys: now two keys of a dim side by side
      a[i / 2][i % 2 * 2] = fp8_to_f16<E>(keys & 0xffff);
      a[i / 2][i % 2 * 2 + 1] = fp8_to_f16<E>(keys >> 16);
    }
  } else {
    unsigned mine = tile.offset(lane % 8 + lane / 16 * 8, lane / 8 % 2 * 16);
    load_matrices_transposed(a[0], tile.behind(mine, first, 64 * k));
    if (both) load_matrices_transposed(a[1], tile.behind(mine, first, 64 * k + 32));
  }
}
