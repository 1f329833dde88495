// Kernel entry of split-KV decode over tensors from sm_90 on. As decode/kernel.cuh, but the work of a single Q tile is
// a parameter, so that its workers need no load before that of their page indices. A launch of up to eight such workers
// has a cluster for each KV head, which merges in shared memory.
// Grid (workers * kv_heads), 32 * WARPS threads, SMEM_BYTES of dynamic shared memory.
#pragma once
#include "decode/worker.cuh"
#include "decode/structs.cuh"

// The items of a worker, and the first of them.
inline WorkerStart worker_start(const KernelParams& p, const OneTileParams& one_tile, int worker) {
  if (one_tile.workers == 0) return p.workers[worker];
  WorkerStart start = {worker, worker + 1, {}, one_tile.item};
  if (worker > 0) start.item.kv_begin = one_tile.ends[worker - 1];
  start.item.kv_end = one_tile.ends[worker];
  if (start.item.partial >= 0) start.item.partial += worker * TILE_ROWS;
  return start;
}

extern "C" __global__ void __launch_bounds__(THREADS, CTAS_PER_SM)
    attn_decode(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant,
                const __grid_constant__ OneTileParams one_tile) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  // KV heads vary fastest over the grid: the heads of a page are neighbours in memory and are read at the same time. A
  // cluster has the workers of a KV head.
  int worker = blockIdx.x / p.kv_heads, kv_head = blockIdx.x - worker * p.kv_heads;
  if (cluster_ctas() > 1) {
    worker = cluster_rank();
    kv_head = blockIdx.x / cluster_ctas();
  }
  run_items(p, variant, worker_start(p, one_tile, worker), kv_head, shared_memory);
}
