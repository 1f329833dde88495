// Kernel entries attn_copy_*: copy pages between two KV pools, for any element type, in words of 16, 4, 2 or 1 bytes.
// Grid (any number of CTAs, keys and values): a grid-stride loop over tiles of pages. Pools may be in pinned host
// memory.
#pragma once
#include "ops/index.cuh"
#include "ops/copy_params.cuh"

constexpr int COPY_ROUNDS = 4;    // words per thread and tile
constexpr int COPY_INLINE = 448;  // page pairs that fit the kernel parameters

struct CopyList {
  int2 pairs[COPY_INLINE];
};

template <int BYTES>
inline void copy_page_tiles(const CopyParams& p, const CopyList& list) {
  using W = Word<BYTES>;
  const CopyPart& part = p.part[blockIdx.y];
  u64 tiles = static_cast<u64>(p.count) * part.tiles.divisor;
#pragma unroll 1
  for (u64 number = blockIdx.x; number < tiles; number += gridDim.x) {
    DivMod tile = divmod(number, part.tiles);
    int2 pair = p.pairs ? p.pairs[tile.quotient] : list.pairs[tile.quotient];
    bool inside = pair.x >= 0 && pair.x < p.from_pages && pair.y >= 0 && pair.y < p.to_pages;
    if (!inside) {
      if (tile.remainder == 0 && blockIdx.y == 0 && threadIdx.x == 0) count_skipped(p.status);
      continue;
    }
    const char* from = part.from + pair.x * part.from_page;
    char* to = part.to + pair.y * part.to_page;
    W words[COPY_ROUNDS];
    long long offsets[COPY_ROUNDS];
#pragma unroll
    for (int round = 0; round < COPY_ROUNDS; ++round) {
      unsigned word = (tile.remainder * COPY_ROUNDS + round) * OP_THREADS + threadIdx.x;
      offsets[round] = -1;
      if (word >= part.words) continue;
      DivMod run = divmod(word, part.run);
      DivMod row = divmod(run.quotient, part.inner);
      long long outer = row.quotient, within = static_cast<long long>(run.remainder) * BYTES;
      words[round] =
          *reinterpret_cast<const W*>(from + outer * part.from_outer + row.remainder * part.from_inner + within);
      offsets[round] = outer * part.to_outer + row.remainder * part.to_inner + within;
    }
#pragma unroll
    for (int round = 0; round < COPY_ROUNDS; ++round)
      if (offsets[round] >= 0) *reinterpret_cast<W*>(to + offsets[round]) = words[round];
  }
}

#define ATTN_COPY(bytes)                                                                               \
  extern "C" __global__ void __launch_bounds__(OP_THREADS)                                             \
      attn_copy_##bytes(const __grid_constant__ CopyParams p, const __grid_constant__ CopyList list) { \
    copy_page_tiles<bytes>(p, list);                                                                   \
  }
ATTN_COPY(16)
ATTN_COPY(4)
ATTN_COPY(2)
ATTN_COPY(1)
