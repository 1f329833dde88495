// 16-bit products of sm_90 prefill: gemm_qk and gemm_pv of a warpgroup.
#pragma once
#include "arch/wgmma.cuh"
#include "softmax/units.cuh"

// S += Q K^T for the warpgroup's 64 rows, asynchronous. S starts from 0 unless the accumulator holds a bias already
// (BIAS_IN_ACCUMULATOR).
inline void gemm_qk(ScoreFragment& s, SmemDescriptor desc_q, unsigned smem_k) {
  SmemDescriptor desc_k = make_smem_descriptor(smem_k, 16);
  warpgroup_fence_operand(s[0]);
  warpgroup_arrive();
#pragma unroll
  for (int d = 0; d < HEAD_DIM_QK / 16; ++d)
    wgmma_qk<QkElem>(s[0], advance_descriptor(desc_q, d / 4 * SmemQ::PANEL_BYTES + d % 4 * 32),
                     advance_descriptor(desc_k, d / 4 * SmemK::PANEL_BYTES + d % 4 * 32), BIAS_IN_ACCUMULATOR || d > 0);
  warpgroup_commit_batch();
}

// P of a whole tile in registers, as A operands of gemm_pv.
using ProbTile = unsigned[TILE_KEYS / 16][4];

// O += P V, asynchronous.
inline void gemm_pv(OutputFragment& o, ProbTile& probs, unsigned smem_v) {
  SmemDescriptor desc_v = make_smem_descriptor(smem_v, SmemV::PANEL_BYTES);
  warpgroup_fence_operand(o[0]);
  warpgroup_fence_operand(probs);
  warpgroup_arrive();
#pragma unroll
  for (int n = 0; n < TILE_KEYS / 16; ++n) wgmma_pv<PvElem>(o[0], probs[n], advance_descriptor(desc_v, n * 2048));
  warpgroup_commit_batch();
}
