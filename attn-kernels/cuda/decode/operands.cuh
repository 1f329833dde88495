// MMA operand fragments of decode, swap-AB: S^T = K Q^T and O^T = V^T P^T. K and V are operand A, so that many keys
// fill the long side (M) of the MMA shape and few query rows the short side (N).
//
// Dims are taken 32 at a time, in two k steps of 16. With 16-bit elements step u has the dims 16 u ... With FP8 a lane
// finds four neighbours in a register, and step u has two of every four. The order of dims within a step does not
// matter as long as Q uses the same one (`query_dim`). If the head dim is an odd multiple of 16, the last 16 dims are a
// step of their own, and a register's two halves hold the lower and the upper dims.
#pragma once

#include "decode/kv_pipeline.cuh"

// The first of the two dims of Q that this lane holds in the lower (`high`: upper) half of step u of the k-th 32 dims.
template <class E>
inline int query_dim(int k, int u, int high) {
  int lane = threadIdx.x % 4;
#ifdef ATTN_KV_FORMAT
  if (FRAGMENT_KEYS) return 32 * k + 8 * lane + 4 * u + 2 * high;
#endif  // ATTN_KV_FORMAT
  if (IS_FP8<E> && 32 * k + 16 >= HEAD_DIM_QK) return 32 * k + 4 * lane + 2 * high;
  return IS_FP8<E> ? 32 * k + 16 * high + 4 * lane + 2 * u : 32 * k + 16 * u + 8 * high + 2 * lane;
}

// The dim of O in this lane's accumulators for the t-th 16 dims, in the lower (`high`: upper) eight rows.
template <class E>
inline int output_dim(int t, int high) {
  int row = threadIdx.x % 32 / 4;
#ifdef ATTN_KV_FORMAT
  if (FRAGMENT_VALUES) return 64 * (t / 4) + 8 * row + 2 * (t % 4) + high;
#endif  // ATTN_KV_FORMAT
  return 16 * t + (IS_FP8<E> ? 2 * row + high : row + 8 * high);
}

// Loads K fragments of 16 keys from `first` on and the k-th 32 dims: two steps, or one if only 16 dims remain.
template <class E>
inline void load_k_fragments(unsigned (&a)[2][4], WarpSmemK<E> tile, int first, int k) {
  bool both = 32 * k + 16 < HEAD_DIM_QK;
  int lane = threadIdx.x % 32;
  unsigned lane_offset = tile.offset(lane % 16, lane / 16 * 16);
  if constexpr (IS_FP8<E>) {
    if (!both) {
      unsigned bytes[2];
      ldmatrix_x2(bytes, tile.advance(lane_offset, first, 32 * k));
#pragma unroll
      for (int i = 0; i < 4; ++i) a[0][i] = fp8_to_f16<E>(i < 2 ? bytes[i] & 0xffff : bytes[i - 2] >> 16);
      return;
    }
    unsigned bytes[4];
    ldmatrix_x4(bytes, tile.advance(lane_offset, first, 32 * k));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[0][i] = fp8_to_f16<E>(bytes[i] & 0xffff);
      a[1][i] = fp8_to_f16<E>(bytes[i] >> 16);
    }
  } else {
    ldmatrix_x4(a[0], tile.advance(lane_offset, first, 64 * k));
    if (both) ldmatrix_x4(a[1], tile.advance(lane_offset, first, 64 * k + 32));
  }
}

// Loads V fragments of 16 keys from `first` on and the k-th 32 dims: two steps, or one if only 16 dims remain.
template <class E>
inline void load_v_fragments(unsigned (&a)[2][4], WarpSmemV<E> tile, int first, int k) {
  bool both = 32 * k + 16 < HEAD_DIM_VO;
  int lane = threadIdx.x % 32;
  if constexpr (IS_FP8<E>) {
    unsigned bytes[4], from = tile.advance(tile.offset(lane % 16, lane / 16 * 16), first, 32 * k);
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
    unsigned lane_offset = tile.offset(lane % 8 + lane / 16 * 8, lane / 8 % 2 * 16);
    ldmatrix_x4_trans(a[0], tile.advance(lane_offset, first, 64 * k));
    if (both) ldmatrix_x4_trans(a[1], tile.advance(lane_offset, first, 64 * k + 32));
  }
}
#ifdef ATTN_KV_FORMAT

// Decodes K fragments of 16 keys from `first` on and the k-th 32 dims, of which a lane has eight of two keys.
template <class Format>
inline void decode_k_fragments(unsigned (&a)[2][4], const Format& format, const KvPipeline& pipeline, int stage,
                               int kv_head, int first, int k) {
  int key = first + threadIdx.x % 32 / 4, dim = 32 * k + threadIdx.x % 4 * 8;
#pragma unroll
  for (int high = 0; high < 2; ++high) {
    Array<float, 8> x = format.decode(pipeline.key_codes(stage, key + 8 * high),
                                      pipeline.key_side(stage, key + 8 * high), kv_head, dim);
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i / 2][high + i % 2 * 2] = pack2_f16_satfinite(x.x[2 * i], x.x[2 * i + 1]);
  }
}

// Decodes V fragments of 16 keys from `first` on and the `block`-th 64 dims, of which a lane has eight of four keys:
// four tiles of 16 dims.
template <class Format>
inline void decode_v_fragments(unsigned (&a)[4][4], const Format& format, const KvPipeline& pipeline, int stage,
                               int kv_head, int first, int block) {
  int dim = 64 * block + threadIdx.x % 32 / 4 * 8;
#pragma unroll
  for (int high = 0; high < 2; ++high) {
    int key = first + 8 * high + threadIdx.x % 4 * 2;
    Array<float, 8> even =
        format.decode(pipeline.value_codes(stage, key), pipeline.value_side(stage, key), kv_head, dim);
    Array<float, 8> odd =
        format.decode(pipeline.value_codes(stage, key + 1), pipeline.value_side(stage, key + 1), kv_head, dim);
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i / 2][i % 2 + 2 * high] = pack2_f16_satfinite(even.x[i], odd.x[i]);
  }
}
#endif  // ATTN_KV_FORMAT
