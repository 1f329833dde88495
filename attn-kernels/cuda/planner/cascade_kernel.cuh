// Kernel entry of the device planner of batches with levels, attn_plan. As planner/mixed_kernel.cuh.
#pragma once
#include "planner/block_scan.cuh"
#include "planner/cascade_batch.cuh"

constexpr int PLAN_THREADS = 512;

extern "C" __global__ void __launch_bounds__(PLAN_THREADS, 1)
    attn_plan(const __grid_constant__ CascadePlanParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  using Cta = CtaCollectives<PLAN_THREADS>;
  __shared__ Cta::TempStorage shared;
  Cta cta(shared);
  int parts = gridDim.x - 1;
  if (static_cast<int>(blockIdx.x) < parts) return copy_level_pages(cta, p, blockIdx.x, parts);
  plan_cascade(cta, p, variant, parts, shared_memory);
}
