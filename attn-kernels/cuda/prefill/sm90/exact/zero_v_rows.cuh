#pragma once
#include "memory/smem_tile.cuh"

// Zeroes rows of V from `first` on: P is 0 where there is no key, but 0 * NaN is not 0. COUNT threads call it, which
// are numbered by `thread`, and wait for each other at the named barrier. CHUNKS: 16-byte chunks of a row.
template <int COUNT, int CHUNKS = SmemV::BYTES / (TILE_KEYS * 16)>
inline void zero_v_rows(int barrier, int thread, SmemV smem_v, int first) {
  for (int i = thread; i < (TILE_KEYS - first) * CHUNKS; i += COUNT)
    store_shared_16(smem_v.at(first + i / CHUNKS, i % CHUNKS), make_uint4(0, 0, 0, 0));
  fence_view_async_shared();
  named_barrier_sync(barrier, COUNT);
}
