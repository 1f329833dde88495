// GEMMs of latent attention: a warpgroup computes S of its KV tile from all columns of Q and K, and its columns of O
// from P of both tiles of a pair, in shared memory.
#pragma once
#include "prefill/sm90/exact/products.cuh"

// P of a KV tile in shared memory, as an A operand of gemm_pv.
using SmemP = SmemTile<TILE_ROWS, TILE_KEYS>;
static_assert(SmemP::BYTES == SMEM_P_BYTES, "P is one panel");

// S += Q K^T of the columns from FIRST to END, asynchronous.
template <int FIRST, int END>
inline void gemm_qk_columns(ScoreFragment& s, SmemDescriptor desc_q, unsigned smem_k, bool accumulate) {
  SmemDescriptor desc_k = make_smem_descriptor(smem_k, 16);
  warpgroup_fence_operand(s[0]);
  warpgroup_arrive();
#pragma unroll
  for (int d = FIRST / 16; d < END / 16; ++d)
    wgmma_qk<QkElem>(s[0], advance_descriptor(desc_q, d / 4 * SmemQ::PANEL_BYTES + d % 4 * 32),
                     advance_descriptor(desc_k, d / 4 * SmemK::PANEL_BYTES + d % 4 * 32), accumulate || d > FIRST / 16);
  warpgroup_commit_batch();
}

// O += P V, asynchronous. `smem_v`: the first of the warpgroup's panels of V.
inline void gemm_pv(OutputFragment& o, SmemP smem_p, unsigned smem_v) {
  SmemDescriptor desc_p = make_smem_descriptor(smem_p.base, 16);
  SmemDescriptor desc_v = make_smem_descriptor(smem_v, SmemV::PANEL_BYTES);
  warpgroup_fence_operand(o[0]);
  warpgroup_arrive();
#pragma unroll
  for (int n = 0; n < TILE_KEYS / 16; ++n)
    wgmma_pv<PvElem>(o[0], advance_descriptor(desc_p, n * 32), advance_descriptor(desc_v, n * 2048), true);
  warpgroup_commit_batch();
}

// This warp's rows of P to shared memory, where WGMMA reads them. In registers P would take those that hooks need.
inline void store_probs(SmemP smem_p, const ScoreFragment& probs) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < TILE_KEYS / 16; ++n) {
    ProbFragment chunk;
    pack_probs(chunk, probs, n);
    stmatrix_x4(smem_p.at(16 * row_warp() + lane % 16, 2 * n + lane / 16), chunk[0]);
  }
  fence_view_async_shared();
}
