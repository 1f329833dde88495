// attn_prefill for sm_90 with 8-bit products: the persistent, warp-specialised kernel of `prefill/sm90/kernel.cuh` with
// another consumer. K is read as it is stored, V as the preprocessing kernel transposed it. Grid (CTAs, 1); CTA_THREADS
// threads, SMEM_BYTES of dynamic shared memory.
#pragma once
// Named barriers.
constexpr int PRODUCER_BARRIER = 2, WARP_SCHEDULER_BARRIER = 3;

#include "prefill/sm90/e4m3/mainloop.cuh"

constexpr int CTA_THREADS = THREADS + 32 * PRODUCER_WARPS;
// Shared memory: Q_STAGES Q tiles, then STAGES K tiles, STAGES V tiles, and the O tile; aligned to 1024 bytes, wherever
// the dynamic shared memory begins.
constexpr int TILES_ALIGNMENT = 1024;
constexpr int SMEM_BYTES =
    TILES_ALIGNMENT + Q_STAGES * SmemQ::BYTES + STAGES * (SmemK::BYTES + SmemV::BYTES) + SMEM_O_BYTES;

// Registers per thread (setmaxnreg). The producer needs more where it reads the page table.
constexpr int LAUNCH_REGISTERS = (64 * 1024 / CTA_THREADS) / 8 * 8;
constexpr int PRODUCER_REGISTERS = KEYS_PAGED ? 72 : 56, CONSUMER_REGISTERS = KEYS_PAGED ? 216 : 224;
static_assert(CONSUMER_REGISTERS * THREADS + PRODUCER_REGISTERS * 32 * PRODUCER_WARPS <= LAUNCH_REGISTERS * CTA_THREADS,
              "otherwise setmaxnreg would wait forever");
static_assert(PRODUCER_WARPS == 4 && CONSUMER_WARPGROUPS == 2, "one producer and two consumer warpgroups");
static_assert(SMEM_BYTES + sizeof(PipelineStorage) <= 227 * 1024, "shared memory of an SM: at most 227 KiB per CTA");
static_assert(STAGES > 1, "V of a tile is loaded after K of the next one");
static_assert(SAME<KvElem, e4m3> && !K_PREPROCESSED && V_PREPROCESSED, "K is read as stored, V is transposed");
static_assert(!Variant::HAS_KEY_TRANSFORM && !Variant::HAS_VALUE_TRANSFORM, "nothing changes stored rows");
static_assert(!Variant::HAS_KV_LIST && !V_SHARES_K, "KV lists and shared K/V have no sm_90 kernel");
static_assert(HEAD_DIM_QK == 128 && HEAD_DIM_VO == 128, "a row of K is one panel of 128 bytes");
static_assert(TILE_KEYS == 128, "so is a row of V");
static_assert(SMEM_O_BYTES == TILE_ROWS * STAGED_ROW_BYTES, "the O tile has its size");

extern "C" __global__ void __launch_bounds__(CTA_THREADS, 1)
    attn_prefill(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant,
                 const __grid_constant__ Sm90Params w) {
  extern __shared__ unsigned char shared_memory[];
  __shared__ PipelineStorage state;
  SmemTiles tiles;
  tiles.q.base = (shared_address(shared_memory) + TILES_ALIGNMENT - 1) / TILES_ALIGNMENT * TILES_ALIGNMENT;
  tiles.k.base = tiles.q.base + Q_STAGES * SmemQ::BYTES;
  tiles.v.base = tiles.k.base + STAGES * SmemK::BYTES;
  tiles.o = tiles.v.base + STAGES * SmemV::BYTES;
  Pipeline pipeline(state);
  bool tma = use_tma(w);
  if (threadIdx.x == 0) {
    int q_arrivals = w.use_tma_q ? 1 : 32 * PRODUCER_WARPS;
    pipeline.init(tma ? KLoader<true>::ARRIVALS : KLoader<false>::ARRIVALS, VLoader<true>::ARRIVALS, q_arrivals);
  }
  if (threadIdx.x < 32) {
    for (int stage = 0; stage < STAGES; ++stage) write_ones(tiles.v_stage(stage));
    fence_view_async_shared();
  }
  __syncthreads();
  // shfl makes the value warp-uniform for ptxas
  if (__shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / THREADS, 0)) {
    warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    if (tma)
      producer_loop<true>(p, variant, w, tiles, pipeline);
    else if constexpr (KEYS_PAGED)  // without pages every load is TMA
      producer_loop<false>(p, variant, w, tiles, pipeline);
  } else {
    warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    consumer_mainloop(p, variant, w, tiles, pipeline);
  }
}
