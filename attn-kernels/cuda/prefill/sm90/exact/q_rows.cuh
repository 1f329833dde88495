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
        descriptor(make_smem_descriptor(smem.base + warpgroup * 64 * 128, 16)) {}

  // Called once Q has arrived.
  void transform(const KernelParams& p, const Variant& variant, const QTile& q_tile) const {
    if constexpr (!TRANSFORM_Q) return;
    transform_q<64, 128, HookRow<HEAD_DIM_QK>>(smem, p, variant, q_tile, 64 * warpgroup, threadIdx.x % 128);
    fence_view_async_shared();
    named_barrier_sync(WARPGROUP_BARRIER + warpgroup, 128);
  }
};
