// attn_x_packed_*: keys as (blocks, heads, dim / x, slots, x) and values as (blocks, heads, dim, slots), to and from pools in pages. Grid (pages * heads,
// keys and values). A CTA turns a tile of slots over in shared memory, so that both sides are read and written in the order of their memory.
#pragma once
#include "ops/index.cuh"

struct XPackedPart {
  char* packed;
  char* pool;
  long long packed_page, packed_head, packed_chunk, packed_slot;  // bytes; of values: a chunk is an element of a head
  long long pool_page, pool_slot, pool_head;                      // bytes
  int dim;
  int tile;       // slots of a tile
  int row_bytes;  // of shared memory, a multiple of 16
  int wide;       // whether the pool's rows are read and written in 16 bytes
  FastDiv x;      // elements of a chunk; of values 1
  int chunk_wide; // whether a chunk is 16 aligned bytes
  FastDiv words;  // 16 bytes of a row
  FastDiv units;  // elements of a row
};

struct XPackedParams {
  XPackedPart part[2];
  FastDiv heads;
  int slots;
  int to_pages;  // or from them
  int pad;
};

// In turns of bytes that both sides have side by side.
template <class W>
inline void move_word(char* shared, char* memory, bool shared_is_target) {
  if (shared_is_target)
    *reinterpret_cast<W*>(shared) = *reinterpret_cast<const W*>(memory);
  else
    *reinterpret_cast<W*>(memory) = *reinterpret_cast<const W*>(shared);
}

// The packed side of a tile: chunk by chunk, in each slot by slot.
template <class E>
inline void packed_side(const XPackedPart& part, char* packed, char* shared, int first, int count, bool read) {
  FastDiv x = part.x;
  int chunks = part.dim / static_cast<int>(x.divisor);
  if (part.chunk_wide) {
    for (int i = threadIdx.x; i < chunks * count; i += OP_THREADS) {
      int chunk = i / count, slot = i - chunk * count;
      char* memory = packed + chunk * part.packed_chunk + (first + slot) * part.packed_slot;
      move_word<uint4>(shared + slot * part.row_bytes + chunk * 16, memory, read);
    }
    return;
  }
  int run = count * static_cast<int>(x.divisor);
  for (int i = threadIdx.x; i < chunks * run; i += OP_THREADS) {
    int chunk = i / run;
    Split at = split(i - chunk * run, x);
    int slot = static_cast<int>(at.quotient), element = chunk * static_cast<int>(x.divisor) + at.rest;
    char* memory = packed + chunk * part.packed_chunk + (first + slot) * part.packed_slot + at.rest * static_cast<int>(sizeof(E));
    move_word<E>(shared + slot * part.row_bytes + element * static_cast<int>(sizeof(E)), memory, read);
  }
}

// The other: row by row.
template <class W>
inline void paged_side(const XPackedPart& part, FastDiv words, char* pool, char* shared, int first, int count, bool read) {
  for (int i = threadIdx.x; i < count * static_cast<int>(words.divisor); i += OP_THREADS) {
    Split at = split(i, words);
    int slot = static_cast<int>(at.quotient), within = at.rest * static_cast<int>(sizeof(W));
    move_word<W>(shared + slot * part.row_bytes + within, pool + (first + slot) * part.pool_slot + within, read);
  }
}

template <class E>
inline void turn_over(const XPackedParams& p) {
  extern __shared__ __align__(16) char x_packed_memory[];
  const XPackedPart& part = p.part[blockIdx.y];
  if (part.dim == 0) return;
  Split at = split(blockIdx.x, p.heads);
  long long page = at.quotient;
  char* packed = part.packed + page * part.packed_page + at.rest * part.packed_head;
  char* pool = part.pool + page * part.pool_page + at.rest * part.pool_head;
  auto paged = [&](int first, int count, bool read) {
    if (part.wide)
      paged_side<uint4>(part, part.words, pool, x_packed_memory, first, count, read);
    else
      paged_side<E>(part, part.units, pool, x_packed_memory, first, count, read);
  };
#pragma unroll 1
  for (int first = 0; first < p.slots; first += part.tile) {
    int count = min(part.tile, p.slots - first);
    if (p.to_pages)
      packed_side<E>(part, packed, x_packed_memory, first, count, true);
    else
      paged(first, count, true);
    __syncthreads();
    if (p.to_pages)
      paged(first, count, false);
    else
      packed_side<E>(part, packed, x_packed_memory, first, count, false);
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(OP_THREADS) attn_x_packed_4(const __grid_constant__ XPackedParams p) { turn_over<unsigned>(p); }
extern "C" __global__ void __launch_bounds__(OP_THREADS) attn_x_packed_2(const __grid_constant__ XPackedParams p) { turn_over<unsigned short>(p); }
extern "C" __global__ void __launch_bounds__(OP_THREADS) attn_x_packed_1(const __grid_constant__ XPackedParams p) { turn_over<unsigned char>(p); }
