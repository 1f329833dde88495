// attn_prefill for sm_90 with 8-bit products: the persistent, warp-specialised kernel of `prefill/sm90/kernel.cuh` with
// another consumer. K is read as it is stored, V as the preprocessing kernel transposed it. Grid (CTAs, 1); CTA_THREADS
// threads, SMEM_BYTES of dynamic shared memory.
#pragma once
// Named barriers.
constexpr int CONSUMER_BARRIER = 1, PRODUCER_BARRIER = 2, WARP_SCHEDULER_BARRIER = 3;

#include "prefill/sm90/e4m3/loaders.cuh"
#include "prefill/sm90/e4m3/warpgroup_tile.cuh"
#include "prefill/sm90/mainloop.cuh"
#include "prefill/sm90/roles.cuh"

static_assert(CONSUMER_WARPGROUPS == 2, "two consumer warpgroups");
static_assert(STAGES > 1, "V of a tile is loaded after K of the next one");
static_assert(SAME<KvElem, e4m3> && !K_PREPROCESSED && V_PREPROCESSED, "K is read as stored, V is transposed");
static_assert(!Variant::HAS_KEY_TRANSFORM && !Variant::HAS_VALUE_TRANSFORM, "nothing changes stored rows");
static_assert(HEAD_DIM_QK == 128 && HEAD_DIM_VO == 128, "a row of K is one panel of 128 bytes");
static_assert(TILE_KEYS == 128, "so is a row of V");
static_assert(SMEM_O_BYTES == TILE_ROWS * STAGED_ROW_BYTES, "the O tile has its size");

// The producer needs more registers where it reads the page table.
constexpr int PRODUCER_REGISTERS = KEYS_PAGED ? 72 : 56, CONSUMER_REGISTERS = KEYS_PAGED ? 216 : 224;
using Cta = PrefillCta<Q_STAGES, PRODUCER_REGISTERS, CONSUMER_REGISTERS>;
constexpr int SMEM_BYTES = Cta::SMEM_BYTES;

extern "C" __global__ void __launch_bounds__(CTA_THREADS, 1)
    attn_prefill(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant,
                 const __grid_constant__ Sm90Params w) {
  extern __shared__ unsigned char shared_memory[];
  Cta::run(p, variant, w, shared_memory, [](const SmemTiles& tiles) {
    if (threadIdx.x >= 32) return;
    for (int stage = 0; stage < STAGES; ++stage) write_ones(tiles.v_stage(stage));
    fence_view_async_shared();
  });
}
