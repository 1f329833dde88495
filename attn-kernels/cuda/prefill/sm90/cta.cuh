// A CTA of sm_90 prefill (FlashAttention-3), of a prefill kernel or of a mixed one.
#pragma once
// Named barriers; the last two: one per consumer warpgroup.
constexpr int CONSUMER_BARRIER = 1, PRODUCER_BARRIER = 2, WARP_SCHEDULER_BARRIER = 3, WARPGROUP_BARRIER = 6;

#include "prefill/sm90/exact/loaders.cuh"
#include "prefill/sm90/exact/warpgroup_tile.cuh"
#include "prefill/sm90/mainloop.cuh"
#include "prefill/sm90/roles.cuh"

// The producer needs few registers, and more where it reads the page table. The consumers need many, and all there are
// where they transform Q: with fewer, ptxas hoists the wait for gemm_pv in the mainloop.
constexpr bool PRODUCER_FINDS_PAGES = KEYS_NEED_LOOKUP && !TRANSFORM_Q;
constexpr int PRODUCER_REGISTERS = CONSUMER_WARPGROUPS > 2 ? 32
                                   : PRODUCER_FINDS_PAGES  ? 72
                                                           : 56,
              CONSUMER_REGISTERS = CONSUMER_WARPGROUPS > 2 ? 160
                                   : PRODUCER_FINDS_PAGES  ? 216
                                                           : 224;
static_assert(CONSUMER_WARPGROUPS == 2 || CONSUMER_WARPGROUPS == 3, "two or three consumer warpgroups");
static_assert(STAGES > 1, "V of a tile is loaded after K of the next one");
static_assert(SMEM_O_BYTES == 0 || SMEM_O_BYTES == TILE_ROWS * STAGED_ROW_BYTES, "the O tile has its size, or none");
static_assert(Q_STAGES == 1 || SEPARATE_O_SMEM, "O cannot reuse Q while the next Q is loaded");
static_assert(TILE_ROWS * STAGED_ROW_BYTES <= SmemQ::BYTES || SEPARATE_O_SMEM, "O fits into Q where it reuses it");

using Cta = PrefillCta<Q_STAGES, PRODUCER_REGISTERS, CONSUMER_REGISTERS>;
constexpr int SMEM_BYTES = Cta::SMEM_BYTES;
