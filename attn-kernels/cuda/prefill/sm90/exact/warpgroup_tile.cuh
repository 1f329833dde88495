// What a consumer warpgroup of 16-bit products keeps for a work tile.
#pragma once
#include "prefill/sm90/exact/products.cuh"
#include "prefill/sm90/exact/softmax_step.cuh"
#include "prefill/sm90/pipeline.cuh"
#include "prefill/sm90/store.cuh"

// Ping-pong scheduling: a warpgroup issues its GEMMs once the previous warpgroup's S has arrived, so that one computes
// softmax while another computes GEMMs. Used where registers are few or rows are long; for two warpgroups with rows of
// up to 128 elements only with an affine bias (3 %; a soft cap is 6 % slower with it).
constexpr bool PINGPONG = !SHORT_ROWS || CONSUMER_WARPGROUPS > 2 || BIAS_AFFINE;
// The chunk of P after which gemm_pv of the previous tile is waited for. It has about completed then; later chunks are
// packed one by one, because gemm_pv no longer reads those registers.
constexpr int PV_WAIT_CHUNK = CONSUMER_WARPGROUPS > 2 ? 0 : SHORT_ROWS || LAZY_MAX ? 3 : 1;
// Whether O has its own shared memory or needs none; otherwise it reuses that of Q.
constexpr bool SEPARATE_O_SMEM = OUTPUTS_STAGED || STORE_FROM_REGISTERS;
// With a lazy max S may be recomputed from Q.
constexpr QRelease Q_RELEASE = !SEPARATE_O_SMEM ? QRelease::AFTER_STORE
                               : LAZY_MAX       ? QRelease::AFTER_SCORES
                                                : QRelease::WITH_LAST_K;
// Whether gemm_qk begins with the tile's bias.
constexpr bool GEMM_QK_READS_TILE = BIAS_IN_ACCUMULATOR;

// O of the warpgroup's rows.
struct Outputs {
  OutputFragment o;

  Outputs() { clear(o); }
  // Called after the wait for gemm_pv.
  void arrived() { warpgroup_fence_operand(o[0]); }
  void rescale(const float (&factor)[ROWS_PER_THREAD]) {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) rescale_o(o, r, factor[r]);
  }
  const OutputFragment& fragment() const { return o; }
};

inline void start_gemm_qk(ScoreFragment& s, const WarpgroupQ& q, const ScoreTile& tile, unsigned smem_k) {
  if constexpr (BIAS_IN_ACCUMULATOR) init_scores(s, tile);
  gemm_qk(s, q.descriptor, smem_k);
}
inline void start_gemm_pv(Outputs& o, ProbTile& probs, unsigned smem_v) { gemm_pv(o.o, probs, smem_v); }

// A chunk of P as an A operand.
inline void pack_chunk(ProbTile& probs, const ScoreFragment& s, int chunk) {
  pack_probs(*reinterpret_cast<ProbFragment*>(&probs[chunk]), s, chunk);
}

// The softmax of the warpgroup's rows. `factor` is what O is rescaled by; it and S belong to the mainloop, where the
// compiler keeps one set of registers for all tiles.
struct WarpgroupSoftmax {
  SoftmaxState state;

  WarpgroupSoftmax(const RowMaxState& max_state, const WarpgroupQ&, float) : state(max_state.is_static) {}

  // S of the first tile becomes P; O is still 0.
  void first_step(ScoreFragment& s, float (&factor)[ROWS_PER_THREAD], ProbTile& probs, RowMaxState& max_state,
                  const SoftmaxTile& tile) {
    softmax_step<true>(s, state, factor, max_state, tile, [&](int chunk, bool, auto&) { pack_chunk(probs, s, chunk); });
  }
  // S of a later tile becomes P, and O is rescaled where it must be. `wait_gemm_pv(x)` waits for gemm_pv of the
  // previous tile, once x is computed. Returns whether the tile is skipped instead (SKIP_SOFTMAX).
  template <class Wait>
  bool step(ScoreFragment& s, float (&factor)[ROWS_PER_THREAD], ProbTile& probs, Outputs& o, RowMaxState& max_state,
            const SoftmaxTile& tile, float skip_threshold, Wait wait_gemm_pv) {
    StepResult result = softmax_step<false>(
        s, state, factor, max_state, tile,
        [&](int chunk, bool grown, const float(&sums)[ROWS_PER_THREAD]) {
          if (chunk == PV_WAIT_CHUNK) {
            // with a logits transform ptxas schedules other work first, so that the fence depends on the row sums
            wait_gemm_pv(LAZY_MAX ? s[0][2 * chunk + 1][3] : sums[0] + sums[1]);
            if (grown) o.rescale(factor);
#pragma unroll
            for (int i = 0; i < chunk; ++i) pack_chunk(probs, s, i);
          }
          if (chunk >= PV_WAIT_CHUNK) pack_chunk(probs, s, chunk);
        },
        skip_threshold);
    if (result == StepResult::RECOMPUTED) {
      o.rescale(factor);
#pragma unroll
      for (int chunk = 0; chunk < TILE_CHUNKS; ++chunk) pack_chunk(probs, s, chunk);
    }
    if (result == StepResult::SKIPPED) wait_gemm_pv(s[0][0][0]);
    return result == StepResult::SKIPPED;
  }
  // Called after the last gemm_pv: `state` becomes that of the epilogue.
  void finish(Outputs&, const KernelParams&, int) {}
};
