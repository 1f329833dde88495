// A CTA of sm_90 prefill with 8-bit products. K is read as it is stored, V as the preprocessing kernel transposed it.
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
