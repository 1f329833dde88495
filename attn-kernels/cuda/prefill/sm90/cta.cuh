// A CTA of sm_90 prefill (FlashAttention-3): persistent and warp-specialised. One producer warpgroup loads with TMA,
// two or three consumer warpgroups compute with WGMMA; CTA_THREADS threads, SMEM_BYTES of dynamic shared memory, one
// CTA per SM. It takes work tiles from the tile scheduler until there are none.
#pragma once
// Named barriers; the last two: one per consumer warpgroup.
constexpr int CONSUMER_BARRIER = 1, PRODUCER_BARRIER = 2, WARP_SCHEDULER_BARRIER = 3, WARPGROUP_BARRIER = 6;

#include "prefill/sm90/mainloop.cuh"

constexpr int CTA_THREADS = THREADS + 32 * PRODUCER_WARPS;
// Shared memory: Q_STAGES Q tiles, then STAGES K tiles, STAGES V tiles, and the O tile; aligned to 1024 bytes, wherever
// the dynamic shared memory begins.
constexpr int TILES_ALIGNMENT = 1024;
constexpr int SMEM_BYTES =
    TILES_ALIGNMENT + Q_STAGES * SmemQ::BYTES + STAGES * (SmemK::BYTES + SmemV::BYTES) + SMEM_O_BYTES;

// Registers per thread (setmaxnreg), multiples of eight, of the 64 K that the launch divides evenly. The producer needs
// few, and more where it reads the page table. The consumers need many, and all there are where they transform Q: with
// fewer, ptxas hoists the wait for gemm_pv in the mainloop.
constexpr int LAUNCH_REGISTERS = (64 * 1024 / CTA_THREADS) / 8 * 8;
constexpr bool PRODUCER_FINDS_PAGES = KEYS_PAGED && !TRANSFORM_Q;
constexpr int PRODUCER_REGISTERS = CONSUMER_WARPGROUPS > 2 ? 32
                                   : PRODUCER_FINDS_PAGES  ? 72
                                                           : 56,
              CONSUMER_REGISTERS = CONSUMER_WARPGROUPS > 2 ? 160
                                   : PRODUCER_FINDS_PAGES  ? 216
                                                           : 224;
static_assert(CONSUMER_REGISTERS * THREADS + PRODUCER_REGISTERS * 32 * PRODUCER_WARPS <= LAUNCH_REGISTERS * CTA_THREADS,
              "otherwise setmaxnreg would wait forever");
static_assert(PRODUCER_WARPS == 4 && (CONSUMER_WARPGROUPS == 2 || CONSUMER_WARPGROUPS == 3),
              "one producer and two or three consumer warpgroups");
static_assert(SMEM_BYTES + sizeof(PipelineStorage) <= 227 * 1024, "shared memory of an SM: at most 227 KiB per CTA");
static_assert(STAGES > 1, "V of a tile is loaded after K of the next one");
static_assert(SAME<QoElem, KvElem> || IS_FP8<KvElem>, "Q and K have one element type, unless K is preprocessed");
static_assert(K_PREPROCESSED == (Variant::HAS_KEY_TRANSFORM || IS_FP8<KvElem>),
              "K is preprocessed where it is transformed or fp8");
static_assert(V_PREPROCESSED == (Variant::HAS_VALUE_TRANSFORM || IS_FP8<KvElem>),
              "V is preprocessed where it is transformed or fp8");
static_assert(!Variant::HAS_KV_LIST && !V_SHARES_K, "KV lists and shared K/V have no sm_90 kernel");
static_assert(SMEM_O_BYTES == 0 || SMEM_O_BYTES == TILE_ROWS * STAGED_ROW_BYTES, "the O tile has its size, or none");
static_assert(Q_STAGES == 1 || SEPARATE_O_SMEM, "O cannot reuse Q while the next Q is loaded");
static_assert(TILE_ROWS * STAGED_ROW_BYTES <= SmemQ::BYTES || SEPARATE_O_SMEM, "O fits into Q where it reuses it");

// Runs the CTA. `shared_memory`: the dynamic shared memory.
inline void prefill_cta(const KernelParams& p, const Variant& variant, const Sm90Params& w,
                        const unsigned char* shared_memory) {
  __shared__ PipelineStorage state;
  SmemTiles tiles;
  tiles.q.base = (shared_address(shared_memory) + TILES_ALIGNMENT - 1) / TILES_ALIGNMENT * TILES_ALIGNMENT;
  tiles.k.base = tiles.q.base + Q_STAGES * SmemQ::BYTES;
  tiles.v.base = tiles.k.base + STAGES * SmemK::BYTES;
  tiles.o = OUTPUTS_STAGED ? tiles.v.base + STAGES * SmemV::BYTES : tiles.q.base;
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
      producer_loop<true>(p, variant, w, tiles, pipeline);
    else if constexpr (KEYS_PAGED)  // without pages every load is TMA
      producer_loop<false>(p, variant, w, tiles, pipeline);
  } else {
    warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    consumer_mainloop(p, variant, w, tiles, pipeline);
  }
}
