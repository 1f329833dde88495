// 8-bit products of sm_90 prefill: gemm_qk and gemm_pv of e4m3 operands.
//
// WGMMA takes 8-bit operands in shared memory K-major alone: rows of Q, K and V are contiguous along the dimension that
// is summed over. So V is transposed, and its keys are in another order within each 16 (`transpose_values.cuh`): the
// accumulators of S are then the A operand of gemm_pv, without an exchange between lanes.
//
// Eight rows of ones follow the rows of V. So gemm_pv also sums P as it was rounded, and O is divided by that sum: a
// row with one key is its value.
#pragma once
#include "arch/wgmma.cuh"
#include "prefill/sm90/smem_tiles.cuh"

// Q of this thread as A operands of gemm_qk, each of 32 dims. They stay in registers, so that the Q tile is released
// before the first GEMM, and GEMMs read shared memory for K alone.
using QOperands = unsigned[HEAD_DIM_QK / 32][4];

// O, and the sums of this thread's two rows, each twice.
constexpr int SUM_BLOCK = COLUMNS / 8;
using SummedOutputs = float[SUM_BLOCK + 1][4];

// A chunk of P is 32 keys: one A operand of gemm_pv. P of a whole tile is in registers.
constexpr int PROB_CHUNKS = TILE_KEYS / 32;
using ProbTile = unsigned[PROB_CHUNKS][4];

// Four numbers rounded to e4m3, the first in the lowest byte; beyond 448 they saturate, and NaN stays NaN.
inline unsigned pack4_e4m3(float first, float second, float third, float fourth) {
  unsigned y;
  asm("{\n"
      ".reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n"
      "}"
      : "=r"(y)
      : "f"(first), "f"(second), "f"(third), "f"(fourth));
  return y;
}

// Copies a register so that no compiler merges both: the operand of a WGMMA in flight must not be written, and ptxas
// serialises all WGMMAs of a kernel that does.
inline unsigned separate_register(unsigned x) {
  unsigned y;
  asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x) : "memory");
  return y;
}

// Writes 0 to an accumulator in its own register. An assigned 0 gets another one: ptxas has too few for the copies, and
// serialises all WGMMAs.
inline void clear_in_place(float& x) { asm volatile("mov.f32 %0, 0f00000000;" : "+f"(x)); }

// S = Q K^T for the warpgroup's 64 rows, asynchronous.
inline void gemm_qk(ScoreFragment& s, QOperands& q, unsigned smem_k) {
  SmemDescriptor desc_k = make_smem_descriptor(smem_k, 16);
  warpgroup_fence_operand(s[0]);
  warpgroup_fence_operand(q);
  warpgroup_arrive();
#pragma unroll
  for (int d = 0; d < HEAD_DIM_QK / 32; ++d) wgmma_qk<e4m3>(s[0], q[d], advance_descriptor(desc_k, 32 * d), d > 0);
  warpgroup_commit_batch();
}

// O += P V, asynchronous.
inline void gemm_pv(SummedOutputs& o, ProbTile& probs, unsigned smem_v) {
  SmemDescriptor desc_v = make_smem_descriptor(smem_v, 16);
  warpgroup_fence_operand(o);
  warpgroup_fence_operand(probs);
  warpgroup_arrive();
#pragma unroll
  for (int n = 0; n < PROB_CHUNKS; ++n) wgmma_pv<e4m3>(o, probs[n], advance_descriptor(desc_v, 32 * n));
  warpgroup_commit_batch();
}

// Writes the rows of ones behind the rows of V of a stage, by the threads of one warp.
inline void write_ones(SmemV smem_v) {
  constexpr unsigned ONES = 0x38383838;  // 1 is 0x38
  for (int i = threadIdx.x % 32; i < 8 * 8; i += 32)
    store_shared_16(smem_v.at(HEAD_DIM_VO + i / 8, i % 8), make_uint4(ONES, ONES, ONES, ONES));
}
// Before the first work tile, writes what no load writes.
inline void prepare_v_tiles(const SmemTiles& tiles) {
  if (threadIdx.x >= 32) return;
  for (int stage = 0; stage < STAGES; ++stage) write_ones(tiles.v_stage(stage));
  fence_view_async_shared();
}
