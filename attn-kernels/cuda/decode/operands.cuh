// MMA operand fragments of decode, swap-AB: S^T = K Q^T and O^T = V^T P^T. K and V are operand A, so that many keys
// fill the long side (M) of the MMA shape and few query rows the short side (N).
//
// Dims are taken 32 at a time, in two k steps of 16. With 16-bit elements step u has the dims 16 u ... With FP8 a lane
// finds four neighbours in a register, and step u has two of every four. The order of dims within a step does not
// matter as long as Q uses the same one (`query_dim`). If the head dim is an odd multiple of 16, the last 16 dims are a
// step of their own, and a register's two halves hold the lower and the upper dims.
#pragma once

#include "decode/kv_pipeline.cuh"

// Operands of K from a tile of rows of E.
template <class E>
class KeyFragments {
  WarpSmemK tile_;

 public:
  KeyFragments(const Variant&, KvStage stage, int) : tile_(stage.keys()) {}

  // The first of the two dims of Q that this lane holds in the lower (`high`: upper) half of step u of the k-th 32
  // dims.
  static int query_dim(int k, int u, int high) {
    int lane = threadIdx.x % 4;
    if (IS_FP8<E> && 32 * k + 16 >= HEAD_DIM_QK) return 32 * k + 4 * lane + 2 * high;
    return IS_FP8<E> ? 32 * k + 16 * high + 4 * lane + 2 * u : 32 * k + 16 * u + 8 * high + 2 * lane;
  }

  // Loads fragments of 16 keys from `first` on and the k-th 32 dims: two steps, or one if only 16 dims remain.
  void load(unsigned (&a)[2][4], int first, int k) const {
    bool both = 32 * k + 16 < HEAD_DIM_QK;
    int lane = threadIdx.x % 32;
    unsigned lane_offset = tile_.offset(lane % 16, lane / 16 * 16);
    if constexpr (IS_FP8<E>) {
      if (!both) {
        unsigned bytes[2];
        ldmatrix_x2(bytes, tile_.advance(lane_offset, first, 32 * k));
#pragma unroll
        for (int i = 0; i < 4; ++i) a[0][i] = fp8_to_f16<E>(i < 2 ? bytes[i] & 0xffff : bytes[i - 2] >> 16);
        return;
      }
      unsigned bytes[4];
      ldmatrix_x4(bytes, tile_.advance(lane_offset, first, 32 * k));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[0][i] = fp8_to_f16<E>(bytes[i] & 0xffff);
        a[1][i] = fp8_to_f16<E>(bytes[i] >> 16);
      }
    } else {
      ldmatrix_x4(a[0], tile_.advance(lane_offset, first, 64 * k));
      if (both) ldmatrix_x4(a[1], tile_.advance(lane_offset, first, 64 * k + 32));
    }
  }
};

// Operands of V from a tile of rows of E.
template <class E>
class ValueFragments {
  WarpSmemV tile_;

 public:
  static constexpr int TILES = 2;  // of 16 dims, that are loaded at once

  ValueFragments(const Variant&, KvStage stage, int) : tile_(stage.values()) {}

  // The dim of O in this lane's accumulators for the t-th 16 dims, in the lower (`high`: upper) eight rows.
  static int output_dim(int t, int high) {
    int row = threadIdx.x % 32 / 4;
    return 16 * t + (IS_FP8<E> ? 2 * row + high : row + 8 * high);
  }

  // Loads fragments of 16 keys from `first` on and the k-th 32 dims: two tiles, or one if only 16 dims remain.
  void load(unsigned (&a)[TILES][4], int first, int k) const {
    bool both = 32 * k + 16 < HEAD_DIM_VO;
    int lane = threadIdx.x % 32;
    if constexpr (IS_FP8<E>) {
      unsigned bytes[4], from = tile_.advance(tile_.offset(lane % 16, lane / 16 * 16), first, 32 * k);
      if (both) {
        ldmatrix_x4_trans(bytes, from);
      } else {
        unsigned of_one[2];
        ldmatrix_x2_trans(of_one, from);
        bytes[0] = of_one[0];
        bytes[1] = of_one[1];
      }
#pragma unroll
      for (int i = 0; i < (both ? 4 : 2); ++i) {
        unsigned keys = __byte_perm(bytes[i], 0, 0x3120);  // from key-major to dim-major order
        a[i / 2][i % 2 * 2] = fp8_to_f16<E>(keys & 0xffff);
        a[i / 2][i % 2 * 2 + 1] = fp8_to_f16<E>(keys >> 16);
      }
    } else {
      unsigned lane_offset = tile_.offset(lane % 8 + lane / 16 * 8, lane / 8 % 2 * 16);
      ldmatrix_x4_trans(a[0], tile_.advance(lane_offset, first, 64 * k));
      if (both) ldmatrix_x4_trans(a[1], tile_.advance(lane_offset, first, 64 * k + 32));
    }
  }
};
