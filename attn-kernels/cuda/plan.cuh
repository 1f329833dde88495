// attn_plan: the list of work of a batch whose lengths are in memory of the device, written into the workspace where the host would
// have written it. Grid (parts of the page table + 1), up to 512 threads: few wait for less, many do more at once.
//
// The last CTA plans, so that those that it waits for have begun before it. A thread has a request, then a worker, then an item: a few sums over
// all threads tell each where what it has goes. It is bound by the latency of instructions one after the other: few barriers, few divisions, and
// few steps of a search. What is rare is a call.
#pragma once
#include "plan_batch.cuh"
#include "plan_threads.cuh"

extern "C" __global__ void __launch_bounds__(512)
    attn_plan(const __grid_constant__ PlanParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  __shared__ PlanThreads::Shared shared;
  PlanThreads cta(shared);
  int parts = gridDim.x - 1;
  if (static_cast<int>(blockIdx.x) < parts) return copy_pages(cta, p, blockIdx.x, parts);
  // without a mask twice in the code, so that the compiler knows which memory it is
  if constexpr (Variant::HAS_TILE_CLASS) return plan_batch(cta, p, variant, parts, p.scratch ? p.scratch : shared_memory);
  else if (p.scratch) return plan_batch(cta, p, variant, parts, p.scratch);
  else plan_batch(cta, p, variant, parts, shared_memory);
}
