// Kernel entry of the device planner for kernels whose tiles are split one by one, attn_plan. As planner/kernel.cuh.
//
// A thread handles a request, then a tile, then an item. One CTA an SM: otherwise ptxas takes 64 registers, and spills.
#pragma once
#include "planner/split_batch.cuh"
#include "planner/block_scan.cuh"

constexpr int PLAN_THREADS = 512;

extern "C" __global__ void __launch_bounds__(PLAN_THREADS, 1)
    attn_plan(const __grid_constant__ PlanParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  using Cta = CtaCollectives<PLAN_THREADS>;
  __shared__ Cta::TempStorage shared;
  Cta cta(shared);
  plan_split_batch(cta, p, variant, blockIdx.x, gridDim.x - 1, shared_memory);
}
