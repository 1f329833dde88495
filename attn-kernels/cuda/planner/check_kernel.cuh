// attn_check: a batch whose lengths are in memory of the device is checked, and nothing else. Grid 1, CHECK_THREADS threads.
#pragma once
#include "planner/check_batch.cuh"
#include "planner/block_scan.cuh"

constexpr int CHECK_THREADS = 1024;

extern "C" __global__ void __launch_bounds__(CHECK_THREADS)
    attn_check(const __grid_constant__ PlanParams p, const __grid_constant__ Variant) {
  using Threads = PlanThreads<CHECK_THREADS>;
  __shared__ Threads::Shared shared;
  Threads cta(shared);
  check_batch(cta, p);
}
