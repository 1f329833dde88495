// Rewrites the rows of a stage of decode in shared memory: warps that share keys share the rows.
#pragma once
#include "memory/row.cuh"

// Synchronises the warps that share a pipeline.
inline void sync_row_warps() {
  if constexpr (ROW_WARPS == 1)
    __syncwarp();
  else
    __syncthreads();
}

// Writes a row for each of this warp's keys: `load` has it from a key, `hook` changes it. WHOLE_PASSES: a pass never
// has more rows than there are keys; else lanes past the last key repeat it.
template <class Row, bool WHOLE_PASSES, class To, class Load, class Hook>
inline void rewrite_rows(To to, Load load, Hook hook) {
  constexpr int ROWS = 32 / Row::LANES_OF_ROW;  // that a warp holds at once
  // A hook may be long, so the loop is not unrolled: its code exists once.
#pragma unroll 1
  for (int first = threadIdx.x / 32 % ROW_WARPS * ROWS; first < WARP_KEYS; first += ROWS * ROW_WARPS) {
    int own = first + threadIdx.x % 32 / Row::LANES_OF_ROW, key = WHOLE_PASSES ? own : min(own, WARP_KEYS - 1);
    Row row;
    load(row, key);
    hook(row, key);
    if (WHOLE_PASSES || own < WARP_KEYS) store_hook_row(to, key, row);
  }
}
