// The products of attention on CUDA cores, as DecodeMainloop takes them: in f32, of every element type.
//
// After Q K^T a lane holds the scores of one key for every row of the warp.
#pragma once

#include "cuda_cores/products.cuh"
#include "decode/partials.cuh"

// A warp's O.
class CudaCoreMma {
  CudaCoreSmemQ smem_q_;
  float o_[WARP_ROWS][LANE_DIMS] = {};

  // The warp's first row in the Q tile.
  static int first_row() { return threadIdx.x / 32 % ROW_WARPS * WARP_ROWS; }

 public:
  using SmemQ = CudaCoreSmemQ;
  using Scores = float[WARP_ROWS];
  static constexpr int ROWS = WARP_ROWS;
  static constexpr float SCORE_UNIT = 1.f;
  static constexpr bool STARTS_WITH_BIAS = false;
  static constexpr bool HAS_KEY_STEPS = false;
  static constexpr bool WHOLE_PASSES = false;
  static constexpr bool SATURATES_P = false;
  static constexpr int KEY_LANES = LANES_PER_KEY;

  CudaCoreMma(const Variant&, SmemQ smem_q) : smem_q_(smem_q) {}

  static int row(int r) { return first_row() + r; }

  template <class Position, class F>
  static void for_each_score(Scores& s, Position position, F f) {
    int kv_pos = position(key_of_lane());
#pragma unroll
    for (int r = 0; r < WARP_ROWS; ++r) f(s[r], r, key_of_lane(), kv_pos, 0);
  }
  template <class F>
  static void for_each_score(Scores& s, F f) {
#pragma unroll
    for (int r = 0; r < WARP_ROWS; ++r) f(s[r], r);
  }

  static float max_of_row(const Scores& s, int r, float start) { return fmaxf(start, s[r]); }
  static float max_over_lanes(float x) { return max_across<LANES_PER_KEY>(x); }
  static float sum_over_lanes(float x) { return sum_across<1>(x); }

  template <class Start>
  void gemm_qk(Scores& s, Start, const Variant&, KvStage stage, int) const {
    multiply_q_k(s, smem_q_, first_row(), stage.keys());
  }
  // Lanes exchange P through shared memory.
  void gemm_pv(const Scores& p, const Variant&, KvStage stage, int) {
    if (threadIdx.x % LANES_PER_KEY == 0)
#pragma unroll
      for (int r = 0; r < WARP_ROWS; ++r) store_shared_4(smem_q_.prob(r, key_of_lane()), __float_as_uint(p[r]));
    __syncwarp();  // the probabilities of all lanes are in shared memory
    multiply_p_v(o_, smem_q_, stage.values());
  }
  void rescale(int r, float factor) {
#pragma unroll
    for (float& x : o_[r]) x *= factor;
  }

  void store(const SmemPartials& partials, int r, float scale) const {
#pragma unroll
    for (int pass = 0; pass < VALUE_PASSES; ++pass)
      if (has_output(pass))
#pragma unroll
        for (int i = 0; i < VALUE_ELEMS; ++i)
          partials.partial_o(KvPipeline::key_warp(), row(r), output_dim(pass))[i] =
              o_[r][pass * VALUE_ELEMS + i] * scale;
  }
  static bool stores_state() { return threadIdx.x % 32 == 0; }
};

using DecodeMma = CudaCoreMma;
