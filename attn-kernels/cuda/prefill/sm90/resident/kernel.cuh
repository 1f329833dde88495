// attn_prefill for sm_90 whose work items have keys that fit one KV tile: the persistent, warp-specialised kernel of
// `prefill/sm90/kernel.cuh` with a mainloop and a producer of its own. Grid (CTAs, 1); CTA_THREADS threads, SMEM_BYTES
// of dynamic shared memory.
#pragma once
// Named barriers; the last: one per consumer warpgroup.
constexpr int PRODUCER_BARRIER = 2, WARP_SCHEDULER_BARRIER = 3, WARPGROUP_BARRIER = 6;

#include "prefill/sm90/resident/mainloop.cuh"
#include "prefill/sm90/roles.cuh"

static_assert(WARPGROUPS == 3, "three consumer warpgroups");
static_assert(SMEM_O_BYTES == TILE_ROWS * STAGED_ROW_BYTES, "a warpgroup stores O while others read Q");

// A Q stage has the rows of one warpgroup.
constexpr int PRODUCER_REGISTERS = 56, CONSUMER_REGISTERS = 152;
using Cta = PrefillCta<Q_STAGES / WARPGROUPS, PRODUCER_REGISTERS, CONSUMER_REGISTERS>;
constexpr int SMEM_BYTES = Cta::SMEM_BYTES;

extern "C" __global__ void __launch_bounds__(CTA_THREADS, 1)
    attn_prefill(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant,
                 const __grid_constant__ Sm90Params w) {
  extern __shared__ unsigned char shared_memory[];
  Cta::run(p, variant, w, shared_memory);
}
