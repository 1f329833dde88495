// attn_merge: merges the split-KV partials of Q tiles into output rows, where merging is a kernel of its own (after
// prefill). Grid (merges, kv_heads), MERGE_THREADS threads.
#pragma once

#include "abi/launch_params.cuh"
#include "merge/merge_states.cuh"

constexpr int MERGE_THREADS = 128;

extern "C" __global__ void __launch_bounds__(MERGE_THREADS)
    attn_merge(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant) {
  using Merger = RowMerger<MERGE_THREADS, 4>;
  __shared__ __align__(16) Merger::Shared shared;
  MergeItem merge = p.merges[blockIdx.x];
  if (merge.count == 0) return;  // unused capacity of the grid
  Merger::run(p, variant, {merge.first, merge.count}, true, QTile(merge, blockIdx.y), shared);
}
