// A CTA of sm_90 prefill whose work items have keys that fit one KV tile.
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
