// Kernel entries attn_tensor_rows_*: write rows at indices of a parameter tensor, in words of 16, 4, 2 or 1 bytes. Grid
// (any number of CTAs): a grid-stride loop over words. attn-core/src/ops/tensor_rows.rs is the CPU reference.
#pragma once
#include "ops/index.cuh"
#include "ops/tensor_rows_params.cuh"

template <int BYTES>
inline void write_rows(const TensorRowsParams& p) {
  using W = Word<BYTES>;
  u64 words = static_cast<u64>(p.rows) * p.words.divisor;
#pragma unroll 1
  for (u64 word = static_cast<u64>(blockIdx.x) * OP_THREADS + threadIdx.x; word < words;
       word += static_cast<u64>(gridDim.x) * OP_THREADS) {
    DivMod at = divmod(word, p.words);
    long long index = p.indices[at.quotient];
    if (index < 0) continue;
    if (index >= p.extent) {
      if (at.remainder == 0) count_skipped(p.status);
      continue;
    }
    W* to = reinterpret_cast<W*>(p.to) + index * p.words.divisor + at.remainder;
    *to = reinterpret_cast<const W*>(p.from)[word];
  }
}

#define ATTN_TENSOR_ROWS(bytes)                                              \
  extern "C" __global__ void __launch_bounds__(OP_THREADS)                   \
      attn_tensor_rows_##bytes(const __grid_constant__ TensorRowsParams p) { \
    write_rows<bytes>(p);                                                    \
  }
ATTN_TENSOR_ROWS(16)
ATTN_TENSOR_ROWS(4)
ATTN_TENSOR_ROWS(2)
ATTN_TENSOR_ROWS(1)
