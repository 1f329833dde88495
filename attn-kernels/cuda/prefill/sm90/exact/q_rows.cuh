// Q of a consumer warpgroup of 16-bit products.
#pragma once
#include "arch/wgmma.cuh"
#include "prefill/q_loader.cuh"

// The warpgroup's rows of Q in shared memory, once transformed.
struct WarpgroupQ {
  SmemQ smem;
  int warpgroup;
  float scale;  // from units of row_max to the exponent of exp2
  SmemDescriptor descriptor;

  WarpgroupQ(SmemQ smem, int warp, float scale)
      : smem(smem),
        warpgroup(warp / 4),
        scale(scale),
        descriptor(make_smem_descriptor(smem.base + (COLUMN_WARPS > 1 ? 0 : warpgroup) * 64 * 128, 16)) {}

  // Called once Q has arrived. Warpgroups that share rows transform a part of them each.
  void transform(const KernelParams& p, const Variant& variant, const QTile& q_tile) const {
    if constexpr (!TRANSFORM_Q) return;
    constexpr int ROWS = 64 / COLUMN_WARPS;
    transform_q<ROWS, 128, HookRow<HEAD_DIM_QK>>(smem, p, variant, q_tile, ROWS * warpgroup, threadIdx.x % 128);
    fence_view_async_shared();
    named_barrier_sync(WARPGROUP_BARRIER + (COLUMN_WARPS > 1 ? 0 : warpgroup), 128 * COLUMN_WARPS);
  }
};
