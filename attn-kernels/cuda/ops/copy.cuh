// attn_copy_*: pages to pages, whatever their elements: in words of 16, 4, 2 or 1 bytes. Grid (any number of CTAs, keys and values): each takes tiles of
// pages in turns. Host memory that is pinned is memory like any other here.
#pragma once
#include "ops/index.cuh"

constexpr int COPY_ROUNDS = 4;       // words of a thread at a time
constexpr int COPY_INLINE = 448;     // pairs that the launch itself brings

// A page is `outer * inner` runs of bytes, side by side in both pools. Strides count bytes.
struct CopyPart {
  const char* from;
  char* to;
  long long from_page, to_page;
  long long from_outer, to_outer;
  long long from_inner, to_inner;
  FastDiv inner;
  FastDiv run;          // words
  unsigned words;       // of a page
  FastDiv tiles;        // of a page
};

struct CopyParams {
  CopyPart part[2];
  const int2* pairs;    // null: CopyList
  unsigned* status;     // counts pairs that are left out; may be null
  long long count;      // pairs
  long long from_pages;
  long long to_pages;
};

struct CopyList {
  int2 pairs[COPY_INLINE];
};

template <int BYTES>
inline void copy_pages_of(const CopyParams& p, const CopyList& list) {
  using W = typename Word<BYTES>::type;
  const CopyPart& part = p.part[blockIdx.y];
  u64 tiles = static_cast<u64>(p.count) * part.tiles.divisor;
#pragma unroll 1
  for (u64 number = blockIdx.x; number < tiles; number += gridDim.x) {
    Split tile = split(number, part.tiles);
    int2 pair = p.pairs ? p.pairs[tile.quotient] : list.pairs[tile.quotient];
    bool inside = pair.x >= 0 && pair.x < p.from_pages && pair.y >= 0 && pair.y < p.to_pages;
    if (!inside) {
      if (tile.rest == 0 && blockIdx.y == 0 && threadIdx.x == 0) count_in(p.status);
      continue;
    }
    const char* from = part.from + pair.x * part.from_page;
    char* to = part.to + pair.y * part.to_page;
    W words[COPY_ROUNDS];
    long long places[COPY_ROUNDS];
#pragma unroll
    for (int round = 0; round < COPY_ROUNDS; ++round) {
      unsigned word = (tile.rest * COPY_ROUNDS + round) * OP_THREADS + threadIdx.x;
      places[round] = -1;
      if (word >= part.words) continue;
      Split run = split(word, part.run);
      Split row = split(run.quotient, part.inner);
      long long outer = row.quotient, within = static_cast<long long>(run.rest) * BYTES;
      words[round] = *reinterpret_cast<const W*>(from + outer * part.from_outer + row.rest * part.from_inner + within);
      places[round] = outer * part.to_outer + row.rest * part.to_inner + within;
    }
#pragma unroll
    for (int round = 0; round < COPY_ROUNDS; ++round)
      if (places[round] >= 0) *reinterpret_cast<W*>(to + places[round]) = words[round];
  }
}

#define ATTN_COPY(bytes)                                         \
  extern "C" __global__ void __launch_bounds__(OP_THREADS)       \
      attn_copy_##bytes(const __grid_constant__ CopyParams p, const __grid_constant__ CopyList list) { \
    copy_pages_of<bytes>(p, list);                               \
  }
ATTN_COPY(16)
ATTN_COPY(4)
ATTN_COPY(2)
ATTN_COPY(1)
