// Kernel entry of the device planner, attn_plan: writes the stream-K work list of a batch whose lengths are in device
// memory into the workspace, where the host planner would write it. Grid (parts of the page table + 1), PLAN_THREADS
// threads.
//
// The last CTA plans, so that the CTAs it waits for have started before it. Each thread handles a request, then a
// worker, then an item; CTA-wide prefix sums tell it where to write. The kernel is bound by latency: seven barriers,
// and a dozen divisions between two of them. Loops are not unrolled, since instruction fetches cost latency too.
#pragma once
#include "planner/batch.cuh"
#include "planner/block_scan.cuh"

constexpr int PLAN_THREADS = 1024;

extern "C" __global__ void __launch_bounds__(PLAN_THREADS)
    attn_plan(const __grid_constant__ PlanParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  using Cta = CtaCollectives<PLAN_THREADS>;
  __shared__ Cta::TempStorage shared;
  Cta cta(shared);
  int parts = gridDim.x - 1;
  if (static_cast<int>(blockIdx.x) < parts) return copy_page_table(cta, p, blockIdx.x, parts);
  plan_batch(cta, p, variant, parts, p.scratch ? p.scratch : shared_memory);
}
