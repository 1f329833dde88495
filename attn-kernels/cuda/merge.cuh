// attn_merge: the partial states of blocks of queries become their output rows, where that is a launch of its own: after prefill.
// Grid (merges, kv_heads), MERGE_THREADS threads.
#pragma once

#include "merge_rows.cuh"

constexpr int MERGE_THREADS = 128;

extern "C" __global__ void __launch_bounds__(MERGE_THREADS)
    attn_merge(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant) {
  using Merger = RowMerger<MERGE_THREADS, 4>;
  __shared__ __align__(16) Merger::Shared shared;
  MergeItem merge = p.merges[blockIdx.x];
  if (merge.count == 0) return;  // room that this batch does not need
  Merger::run(p, variant, {merge.first, merge.count}, QueryBlock(merge, blockIdx.y), shared);
}
