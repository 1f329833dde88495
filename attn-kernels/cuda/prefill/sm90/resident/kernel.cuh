// attn_prefill for sm_90 whose work items have keys that fit one KV tile: the persistent, warp-specialised kernel of
// `prefill/sm90/kernel.cuh` with a mainloop and a producer of its own. Grid (CTAs, 1); CTA_THREADS threads, SMEM_BYTES
// of dynamic shared memory.
#pragma once
// Named barriers; the last: one per consumer warpgroup.
constexpr int PRODUCER_BARRIER = 2, WARP_SCHEDULER_BARRIER = 3, WARPGROUP_BARRIER = 6;

#include "prefill/sm90/resident/mainloop.cuh"

constexpr int CTA_THREADS = THREADS + 32 * PRODUCER_WARPS;
// Shared memory: Q_STAGES Q tiles of a warpgroup, then STAGES K tiles, STAGES V tiles, and an O tile of each
// warpgroup; aligned to 1024 bytes, wherever the dynamic shared memory begins.
constexpr int TILES_ALIGNMENT = 1024;
constexpr int SMEM_Q_BYTES = Q_STAGES / WARPGROUPS * SmemQ::BYTES;
constexpr int SMEM_BYTES = TILES_ALIGNMENT + SMEM_Q_BYTES + STAGES * (SmemK::BYTES + SmemV::BYTES) + SMEM_O_BYTES;

// Registers per thread (setmaxnreg), multiples of eight, of the 64 K that the launch divides evenly.
constexpr int LAUNCH_REGISTERS = (64 * 1024 / CTA_THREADS) / 8 * 8;
constexpr int PRODUCER_REGISTERS = 56, CONSUMER_REGISTERS = 152;
static_assert(CONSUMER_REGISTERS * THREADS + PRODUCER_REGISTERS * 32 * PRODUCER_WARPS <= LAUNCH_REGISTERS * CTA_THREADS,
              "otherwise setmaxnreg would wait forever");
static_assert(PRODUCER_WARPS == 4 && WARPGROUPS == 3, "one producer and three consumer warpgroups");
static_assert(SMEM_BYTES + sizeof(PipelineStorage) <= 227 * 1024, "shared memory of an SM: at most 227 KiB per CTA");
static_assert(SAME<QoElem, KvElem> || IS_FP8<KvElem>, "Q and K have one element type, unless K is preprocessed");
static_assert(K_PREPROCESSED == (Variant::HAS_KEY_TRANSFORM || IS_FP8<KvElem>),
              "K is preprocessed where it is transformed or fp8");
static_assert(V_PREPROCESSED == (Variant::HAS_VALUE_TRANSFORM || IS_FP8<KvElem>),
              "V is preprocessed where it is transformed or fp8");
static_assert(!Variant::HAS_KV_LIST && !V_SHARES_K, "KV lists and shared K/V have no sm_90 kernel");
static_assert(SMEM_O_BYTES == TILE_ROWS * STAGED_ROW_BYTES, "a warpgroup stores O while others read Q");

extern "C" __global__ void __launch_bounds__(CTA_THREADS, 1)
    attn_prefill(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant,
                 const __grid_constant__ Sm90Params w) {
  extern __shared__ unsigned char shared_memory[];
  __shared__ PipelineStorage state;
  SmemTiles tiles;
  tiles.q.base = (shared_address(shared_memory) + TILES_ALIGNMENT - 1) / TILES_ALIGNMENT * TILES_ALIGNMENT;
  tiles.k.base = tiles.q.base + SMEM_Q_BYTES;
  tiles.v.base = tiles.k.base + STAGES * SmemK::BYTES;
  tiles.o = tiles.v.base + STAGES * SmemV::BYTES;
  Pipeline pipeline(state);
  bool tma = use_tma(w);
  if (threadIdx.x == 0) {
    int q_arrivals = w.use_tma_q ? 1 : 32 * PRODUCER_WARPS;
    if (tma)
      pipeline.init(KLoader<true>::ARRIVALS, VLoader<true>::ARRIVALS, q_arrivals);
    else
      pipeline.init(KLoader<false>::ARRIVALS, VLoader<false>::ARRIVALS, q_arrivals);
  }
  __syncthreads();
  // shfl makes the value warp-uniform for ptxas
  if (__shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / THREADS, 0)) {
    warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    if (tma)
      producer_loop<true>(p, w, tiles, pipeline);
    else if constexpr (KEYS_PAGED)  // without pages every load is TMA
      producer_loop<false>(p, w, tiles, pipeline);
  } else {
    warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    consumer_mainloop(p, variant, w, tiles, pipeline);
  }
}
