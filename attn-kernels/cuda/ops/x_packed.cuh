// Kernel entries attn_x_packed_*: convert between paged pools and the x-packed layout of vLLM's older caches: keys as
// (blocks, heads, dim / x, slots, x), values as (blocks, heads, dim, slots). Grid (pages * heads, keys and values).
// A CTA transposes a tile of slots in shared memory, so that accesses to both layouts are coalesced.
#pragma once
#include "ops/index.cuh"
#include "ops/x_packed_params.cuh"

// Copies a word between shared and global memory.
template <class W>
inline void copy_word(char* shared, char* memory, bool shared_is_target) {
  if (shared_is_target)
    *reinterpret_cast<W*>(shared) = *reinterpret_cast<const W*>(memory);
  else
    *reinterpret_cast<W*>(memory) = *reinterpret_cast<const W*>(shared);
}

// Copies a tile between shared memory and the x-packed layout: chunk by chunk, slot by slot within a chunk.
template <class E>
inline void copy_packed_side(const XPackedPart& part, char* packed, char* shared, int first, int count, bool read) {
  FastDiv x = part.x;
  int chunks = part.dim / static_cast<int>(x.divisor);
  if (part.chunk_wide) {
    for (int i = threadIdx.x; i < chunks * count; i += OP_THREADS) {
      int chunk = i / count, slot = i - chunk * count;
      char* memory = packed + chunk * part.packed_chunk + (first + slot) * part.packed_slot;
      copy_word<uint4>(shared + slot * part.row_bytes + chunk * 16, memory, read);
    }
    return;
  }
  int run = count * static_cast<int>(x.divisor);
  for (int i = threadIdx.x; i < chunks * run; i += OP_THREADS) {
    int chunk = i / run;
    DivMod at = divmod(i - chunk * run, x);
    int slot = static_cast<int>(at.quotient), element = chunk * static_cast<int>(x.divisor) + at.remainder;
    char* memory = packed + chunk * part.packed_chunk + (first + slot) * part.packed_slot +
                   at.remainder * static_cast<int>(sizeof(E));
    copy_word<E>(shared + slot * part.row_bytes + element * static_cast<int>(sizeof(E)), memory, read);
  }
}

// Copies a tile between shared memory and the paged pool, row by row.
template <class W>
inline void copy_paged_side(const XPackedPart& part, FastDiv words, char* pool, char* shared, int first, int count,
                            bool read) {
  for (int i = threadIdx.x; i < count * static_cast<int>(words.divisor); i += OP_THREADS) {
    DivMod at = divmod(i, words);
    int slot = static_cast<int>(at.quotient), within = at.remainder * static_cast<int>(sizeof(W));
    copy_word<W>(shared + slot * part.row_bytes + within, pool + (first + slot) * part.pool_slot + within, read);
  }
}

template <class E>
inline void transpose_tile(const XPackedParams& p) {
  extern __shared__ __align__(16) char x_packed_memory[];
  const XPackedPart& part = p.part[blockIdx.y];
  if (part.dim == 0) return;
  DivMod at = divmod(blockIdx.x, p.heads);
  long long page = at.quotient;
  char* packed = part.packed + page * part.packed_page + at.remainder * part.packed_head;
  char* pool = part.pool + page * part.pool_page + at.remainder * part.pool_head;
  auto copy = [&](bool is_paged, int first, int count, bool read) {
    if (!is_paged)
      copy_packed_side<E>(part, packed, x_packed_memory, first, count, read);
    else if (part.wide)
      copy_paged_side<uint4>(part, part.words, pool, x_packed_memory, first, count, read);
    else
      copy_paged_side<E>(part, part.units, pool, x_packed_memory, first, count, read);
  };
#pragma unroll 1
  for (int first = 0; first < p.slots; first += part.tile) {
    int count = min(part.tile, p.slots - first);
    copy(!p.to_pages, first, count, true);
    __syncthreads();
    copy(p.to_pages, first, count, false);
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(OP_THREADS) attn_x_packed_4(const __grid_constant__ XPackedParams p) {
  transpose_tile<unsigned>(p);
}
extern "C" __global__ void __launch_bounds__(OP_THREADS) attn_x_packed_2(const __grid_constant__ XPackedParams p) {
  transpose_tile<unsigned short>(p);
}
extern "C" __global__ void __launch_bounds__(OP_THREADS) attn_x_packed_1(const __grid_constant__ XPackedParams p) {
  transpose_tile<unsigned char>(p);
}
