// What a consumer warpgroup of 8-bit products keeps for a work tile.
#pragma once
#include "prefill/sm90/e4m3/softmax_step.cuh"
#include "prefill/sm90/pipeline.cuh"

constexpr bool PINGPONG = false;
constexpr QRelease Q_RELEASE = QRelease::ONCE_READ;
constexpr bool GEMM_QK_READS_TILE = false;

inline void start_gemm_qk(ScoreFragment& s, WarpgroupQ& q, const ScoreTile&, unsigned smem_k) {
  gemm_qk(s, q.operands, smem_k);
}
inline void start_gemm_pv(Outputs& o, ProbTile& probs, unsigned smem_v) { gemm_pv(o.o, probs, smem_v); }
