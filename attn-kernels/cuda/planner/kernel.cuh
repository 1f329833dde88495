// attn_plan: the list of work of a batch whose lengths are in memory of the device, written into the workspace where the host would
// have written it. Grid (parts of the page table + 1), PLAN_THREADS threads.
//
// The last CTA plans, so that those that it waits for have begun before it. A thread has a request, then a worker, then an item: a few sums over
// all threads tell each where what it has goes. It is bound by latency: seven barriers, and a
// dozen divisions between two of them. What runs once is in the code once, since that comes from far away too.
#pragma once
#include "planner/batch.cuh"
#include "planner/block_scan.cuh"

constexpr int PLAN_THREADS = 1024;

extern "C" __global__ void __launch_bounds__(PLAN_THREADS)
    attn_plan(const __grid_constant__ PlanParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  using Threads = PlanThreads<PLAN_THREADS>;
  __shared__ Threads::Shared shared;
  Threads cta(shared);
  int parts = gridDim.x - 1;
  if (static_cast<int>(blockIdx.x) < parts) return copy_pages(cta, p, blockIdx.x, parts);
  plan_batch(cta, p, variant, parts, p.scratch ? p.scratch : shared_memory);
}
