// Counter-based random numbers, the same as in attn-core/src/lang/random.rs: the first word of Philox-4x32-10 (J. K.
// Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, SC 2011) with key (seed, stream) and counter (i, j, 0, 0).
#pragma once

#include "lang/math.cuh"

namespace lang {

ATTN_FN u32 random_bits(u32 seed, u32 stream, u32 i, u32 j) {
  u32 a = i, b = j, c = 0, d = 0;
#ifndef ATTN_HOST
#pragma unroll 2  // ten rounds for each of a thread's logits would be thousands of instructions
#endif
  for (int round = 0; round < 10; ++round) {
    const u64 first = 0xd2511f53ull * a, second = 0xcd9e8d57ull * c;
    const u32 key0 = seed + u32(round) * 0x9e3779b9u, key1 = stream + u32(round) * 0xbb67ae85u;
    a = u32(second >> 32) ^ b ^ key0;
    b = u32(second);
    c = u32(first >> 32) ^ d ^ key1;
    d = u32(first);
  }
  return a;
}

// 0 <= x < 1, a multiple of 2^-24.
ATTN_FN float random_uniform(u32 seed, u32 stream, u32 i, u32 j) {
  return float(random_bits(seed, stream, i, j) >> 8) * 0x1p-24f;
}

}  // namespace lang
