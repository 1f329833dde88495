// attn_prefill for sm_90; its `Cta` is included before. Grid (CTAs, 1): no more CTAs than the device holds, since each
// takes work tiles until there are none. CTA_THREADS threads, SMEM_BYTES of dynamic shared memory.
#pragma once
#include "abi/launch_params.cuh"
#include "arch/cluster.cuh"

extern "C" __global__ void IN_CLUSTERS __launch_bounds__(CTA_THREADS, 1)
    attn_prefill(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant,
                 const __grid_constant__ Sm90Params w) {
  extern __shared__ unsigned char shared_memory[];
  Cta::run(p, variant, w, shared_memory);
}
