// attn_prefill for sm_80 and later (mma.sync, cp.async): one Q tile per CTA. Grid (items, kv_heads), 32 * WARPS
// threads, SMEM_BYTES of dynamic shared memory.
#pragma once
#include "abi/launch_params.cuh"
#include "prefill/sm80/mainloop.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, CTAS_PER_SM)
    attn_prefill(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  WorkTileIndex index = work_tile_index(blockIdx.y * gridDim.x + blockIdx.x, gridDim.x, gridDim.y);
  WorkItem item = p.items[index.item];
  prefill_mainloop(p, variant, item, index.kv_head, shared_memory);
}
