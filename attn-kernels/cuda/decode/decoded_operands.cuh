// MMA operand fragments of decode that each lane decodes itself from rows of KV formats. decode/operands.cuh says what
// the functions are.
#pragma once
#include "decode/kv_pipeline.cuh"

struct DecodedKeyFragments {
  const Variant& variant;
  KvStage stage;
  int kv_head;

  static int query_dim(int k, int u, int high) { return 32 * k + 8 * (threadIdx.x % 4) + 4 * u + 2 * high; }

  // Of the k-th 32 dims a lane has eight of two keys.
  void load(unsigned (&a)[2][4], int first, int k) const {
    int key = first + threadIdx.x % 32 / 4, dim = 32 * k + threadIdx.x % 4 * 8;
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      Array<float, 8> x =
          variant.key_format.decode(stage.key_codes(key + 8 * high), stage.key_side(key + 8 * high), kv_head, dim);
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i / 2][high + i % 2 * 2] = pack2_f16_satfinite(x.x[2 * i], x.x[2 * i + 1]);
    }
  }
};

struct DecodedValueFragments {
  const Variant& variant;
  KvStage stage;
  int kv_head;

  static constexpr int TILES = 4;

  static int output_dim(int t, int high) { return 64 * (t / 4) + 8 * (threadIdx.x % 32 / 4) + 2 * (t % 4) + high; }

  // Of the k-th 64 dims a lane has eight of four keys: four tiles of 16 dims.
  void load(unsigned (&a)[TILES][4], int first, int k) const {
    int dim = 64 * k + threadIdx.x % 32 / 4 * 8;
    auto decode = [&](int key) {
      return variant.format_of_values().decode(stage.value_codes(key), stage.value_side(key), kv_head, dim);
    };
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      int key = first + 8 * high + threadIdx.x % 4 * 2;
      Array<float, 8> even = decode(key), odd = decode(key + 1);
#pragma unroll
      for (int i = 0; i < 8; ++i) a[i / 2][i % 2 + 2 * high] = pack2_f16_satfinite(even.x[i], odd.x[i]);
    }
  }
};
