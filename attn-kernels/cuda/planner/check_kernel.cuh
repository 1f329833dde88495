// Kernel entry attn_check: checks a batch whose lengths are in device memory, without planning it.
// Grid 1, CHECK_THREADS threads.
#pragma once
#include "planner/check_batch.cuh"
#include "planner/block_scan.cuh"

constexpr int CHECK_THREADS = 1024;

extern "C" __global__ void __launch_bounds__(CHECK_THREADS)
    attn_check(const __grid_constant__ PlanParams p, const __grid_constant__ Variant) {
  using Cta = CtaCollectives<CHECK_THREADS>;
  __shared__ Cta::TempStorage shared;
  Cta cta(shared);
  check_batch(cta, p);
}
