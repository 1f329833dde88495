// Kernel entry of prefill on CUDA cores: persistent CTAs, whose warps share keys and have rows of their own.
// Grid (workers * kv_heads), 32 * WARPS threads, SMEM_BYTES of dynamic shared memory.
#pragma once
#include "abi/launch_params.cuh"
#include "decode/worker.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, CTAS_PER_SM)
    attn_prefill(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  int worker = blockIdx.x / p.kv_heads, kv_head = blockIdx.x - worker * p.kv_heads;
  run_worker(p, variant, worker, kv_head, shared_memory);
}
