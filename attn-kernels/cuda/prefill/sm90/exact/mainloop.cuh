// Consumer mainloop of sm_90 prefill: warpgroups of 64 rows each. gemm_qk of a tile runs asynchronously beside gemm_pv
// of the tile before it, and the softmax of the tile overlaps with the latter (FlashAttention-3, arXiv 2407.08608:
// intra-warpgroup pipelining and ping-pong).
#pragma once
#include "prefill/sm90/producer.cuh"
#include "prefill/sm90/store.cuh"
#include "prefill/sm90/exact/products.cuh"
#include "prefill/sm90/exact/softmax_step.cuh"
#include "prefill/sm90/exact/zero_v_rows.cuh"

// Ping-pong scheduling: a warpgroup issues its GEMMs once the previous warpgroup's S has arrived, so that one computes
// softmax while another computes GEMMs. Used where registers are few or rows are long; for two warpgroups with rows of
// up to 128 elements only with an affine bias (3 %; a soft cap is 6 % slower with it).
constexpr bool PINGPONG = !SHORT_ROWS || CONSUMER_WARPGROUPS > 2 || BIAS_AFFINE;
// The chunk of P after which gemm_pv of the previous tile is waited for. It has about completed then; later chunks are
// packed one by one, because gemm_pv no longer reads those registers.
constexpr int PV_WAIT_CHUNK = CONSUMER_WARPGROUPS > 2 ? 0 : SHORT_ROWS ? 3 : 1;
// Whether O has its own shared memory or needs none; otherwise it reuses that of Q.
constexpr bool SEPARATE_O_SMEM = OUTPUTS_STAGED || STORE_FROM_REGISTERS;

// Whether tiles after the first one of an item may need a mask: only the first one extends past the last key. Even
// untaken mask instructions cost 2 to 4 %.
constexpr bool MASK_IN_LOOP = Variant::HAS_LOGITS_MASK;

inline void consumer_mainloop(const KernelParams& p, const Variant& variant, const Sm90Params& w,
                              const SmemTiles& tiles, const Pipeline& pipeline) {
  // shfl makes the value warp-uniform, so that ptxas keeps descriptors in uniform registers
  int warp = __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / 32, 0), warpgroup = warp / 4;
  int part = PARTS > 1 ? warpgroup : 0;  // of the rows, for tile classes
  bool lane_0 = threadIdx.x % 32 == 0, tma = use_tma(w), v_by_tma = tma || VLoader<false>::USES_TMA;
  if constexpr (PINGPONG)
    if (warpgroup == 0) warp_scheduler_barrier_arrive(0);

  int n = 0;
  PipelineTile next = pipeline.consumer_wait_tile(n);
#pragma unroll 1
  for (int work_index = 0; !next.end(); ++work_index) {
    WorkTile work = pipeline.load_work(work_index);
    int partial = work.item.partial;
    QTile q_tile(work.item, work.kv_head);
    KvRange kv_range(p, variant, q_tile, work.item);
    float unit = qk_scale(p, q_tile.kv_head), scale = score_scale_log2(unit);
    QPipelineState q_state(work_index);
    SmemQ smem_q = tiles.q_stage(q_state.stage);
    SmemDescriptor desc_q = make_smem_descriptor(smem_q.base + warpgroup * 64 * 128, 16);
    mbarrier_wait(pipeline.q_full(q_state.stage), q_state.phase);
    if constexpr (TRANSFORM_Q) {
      transform_q<64, 128, HookRow<HEAD_DIM_QK>>(smem_q, p, variant, q_tile, 64 * warpgroup, threadIdx.x % 128);
      fence_view_async_shared();
      named_barrier_sync(WARPGROUP_BARRIER + warpgroup, 128);
    }

    // A TMA load can include V rows past the last key, which all consumers zero; cp.async loads are clamped to keys
    // that exist.
    if (v_by_tma && next.has_keys() && next.key + TILE_KEYS > kv_range.end()) {
      PipelineState state(n);
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
      zero_v_rows<THREADS>(CONSUMER_BARRIER, threadIdx.x, tiles.v_stage(state.stage), kv_range.end() - next.key);
    }

    OutputFragment o;
    clear(o);
    RowMaxState max_state = {use_static_max(variant, q_tile.request.kv_len)};
    SoftmaxState softmax(max_state.is_static);
    ProbTile probs;

    auto issue_gemm_qk = [&](ScoreFragment& s, const ScoreTile& tile, PipelineState state) {
      if (!tma) fence_view_async_shared();
      if constexpr (BIAS_IN_ACCUMULATOR) init_scores(s, tile);
      gemm_qk(s, desc_q, tiles.k_stage(state.stage).base);
    };
    auto issue_gemm_pv = [&](PipelineState state) {
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
      if (!tma) fence_view_async_shared();
      gemm_pv(o, probs, tiles.v_stage(state.stage).base);
    };
    // consumer_release of K. After the last tile, Q is released as well, unless S may be recomputed from it.
    auto consumer_release_k = [&](PipelineState state) {
      __syncwarp();
      if (!lane_0) return;
      mbarrier_arrive(pipeline.k_empty(state.stage));
      if (SEPARATE_O_SMEM && !LAZY_MAX && next.last()) mbarrier_arrive(pipeline.q_empty(q_state.stage));
    };
    auto consumer_release_v = [&](PipelineState state) {
      __syncwarp();
      if (lane_0) mbarrier_arrive(pipeline.v_empty(state.stage));
    };
    auto pack = [&](const ScoreFragment& s, int chunk) {
      pack_probs(*reinterpret_cast<ProbFragment*>(&probs[chunk]), s, chunk);
    };

    // Skips leading tiles that are fully masked for this warpgroup's rows, but never the last tile.
    bool no_rows = q_tile.rows <= 64 * warpgroup, active = false, last = false;
    while (true) {
      active = next.has_keys() && !no_rows && !next.skip(part);
      last = next.last();
      if (active || last) break;
      PipelineState state(n);
      if constexpr (PINGPONG) {
        warp_scheduler_barrier_sync(warpgroup);
        warp_scheduler_barrier_arrive((warpgroup + 1) % CONSUMER_WARPGROUPS);
      }
      consumer_release_k(state);
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
      consumer_release_v(state);
      next = pipeline.consumer_wait_tile(++n);
    }
    if constexpr (PINGPONG) warp_scheduler_barrier_sync(warpgroup);
    if (active) {
      ScoreFragment s;
      PipelineState state(n);
      ScoreTile tile = {p, variant, q_tile, kv_range, next.key, nullptr, unit};
      issue_gemm_qk(s, tile, state);
      ScoreMask mask;
      bool masked = !next.full(part);
      if (masked) mask.evaluate(tile);
      Bias bias(tile);
      warpgroup_wait<0>();
      warpgroup_fence_operand(s[0]);
      if constexpr (PINGPONG) warp_scheduler_barrier_arrive((warpgroup + 1) % CONSUMER_WARPGROUPS);
      consumer_release_k(state);
      float factor[ROWS_PER_THREAD];  // O is still 0
      SoftmaxTile softmax_tile = {tile, mask, masked, bias, scale, smem_q};
      softmax_step<true>(s, softmax, factor, max_state, softmax_tile, [&](int chunk, bool, auto&) { pack(s, chunk); });
    } else {
      if constexpr (PINGPONG) warp_scheduler_barrier_arrive((warpgroup + 1) % CONSUMER_WARPGROUPS);
      consumer_release_k(PipelineState(n));
    }
    ++n;
    if (!last) pipeline.consumer_wait(n);
#pragma unroll 1
    while (!last) {
      ScoreFragment s;
      PipelineState state(n), prev_state(n - 1);
      if constexpr (BIAS_IN_ACCUMULATOR) next = pipeline.read_tile(n);
      ScoreTile tile = {p, variant, q_tile, kv_range, next.key, nullptr, unit};
      if constexpr (PINGPONG) warp_scheduler_barrier_sync(warpgroup);
      issue_gemm_qk(s, tile, state);
      issue_gemm_pv(prev_state);
      if constexpr (!BIAS_IN_ACCUMULATOR) {  // read after issuing the GEMMs, which do not need it
        next = pipeline.read_tile(n);
        tile.first_key = next.key;
      }
      ScoreMask mask;
      bool masked = MASK_IN_LOOP && !next.full(part);
      if (masked) mask.evaluate(tile);
      Bias bias(tile);
      warpgroup_wait<1>();
      warpgroup_fence_operand(s[0]);
      if constexpr (PINGPONG) warp_scheduler_barrier_arrive((warpgroup + 1) % CONSUMER_WARPGROUPS);
      consumer_release_k(state);
      float factor[ROWS_PER_THREAD];
      auto rescale_outputs = [&] {
#pragma unroll
        for (int r = 0; r < ROWS_PER_THREAD; ++r) rescale_o(o, r, factor[r]);
      };
      SoftmaxTile softmax_tile = {tile, mask, masked, bias, scale, smem_q};
      bool recomputed = softmax_step<false>(
          s, softmax, factor, max_state, softmax_tile, [&](int chunk, bool grown, const float(&sums)[ROWS_PER_THREAD]) {
            if (chunk == PV_WAIT_CHUNK) {
              // with a logits transform ptxas schedules other work first, so that the fence depends on the row sums
              scheduling_fence(LAZY_MAX ? s[0][2 * chunk + 1][3] : sums[0] + sums[1], tiles.q.base);
              warpgroup_wait<0>();
              warpgroup_fence_operand(o[0]);
              consumer_release_v(prev_state);
              if (grown) rescale_outputs();
#pragma unroll
              for (int i = 0; i < chunk; ++i) pack(s, i);
            }
            if (chunk >= PV_WAIT_CHUNK) pack(s, chunk);
          });
      if (recomputed) {
        rescale_outputs();
#pragma unroll
        for (int chunk = 0; chunk < TILE_CHUNKS; ++chunk) pack(s, chunk);
      }
      last = next.last();
      ++n;
      if (!last) pipeline.consumer_wait(n);
    }
    if constexpr (SEPARATE_O_SMEM && LAZY_MAX) {
      __syncwarp();
      if (lane_0) mbarrier_arrive(pipeline.q_empty(q_state.stage));
    }
    PipelineState state(n - 1);
    if (active) {
      issue_gemm_pv(state);
      warpgroup_wait<0>();
      warpgroup_fence_operand(o[0]);
    } else {
      // also for a tile without keys: the producer commits it, and waits for the phase that this release ends
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
    }
    consumer_release_v(state);
    if constexpr (!SEPARATE_O_SMEM) named_barrier_sync(CONSUMER_BARRIER, THREADS);  // all consumers have read Q
    if constexpr (OUTPUTS_STAGED) tma_store_wait();
    store_rows(p, variant, o, softmax, q_tile, partial, tiles.o,
               [&](float unit, unsigned staging) { store_o(p, w, variant, o, softmax, unit, q_tile, warp, staging); });
    if constexpr (!SEPARATE_O_SMEM) {
      fence_view_async_shared();  // before TMA loads Q over the staged rows
      __syncwarp();
      if (lane_0) mbarrier_arrive(pipeline.q_empty(q_state.stage));
    }
    next = pipeline.consumer_wait_tile(n);
  }
  if constexpr (OUTPUTS_STAGED) tma_store_wait();  // shared memory must outlive the TMA stores
}
